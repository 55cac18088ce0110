"""What a user asks for: one dataclass for the command line, a recipe and a Python call.

An option is declared once, with its default, its flags and its help: here, or in the folder of the
target or server that it is for. The command line builds its options from these fields, and a
recipe's keys are their names. Only the standard library is imported here, and by what plug-ins
declare, so that ``modelyard --help`` starts in a blink.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache, partial
from typing import Any, ClassVar, TypeVar

from converter import plugins
from converter.errors import DependencyError
from converter.options.option import Option, declared
from converter.plugins import available

_source = partial(declared, "Source", affects=("parse",))
_target = partial(declared, "Targets", affects=("emit",))
_samples = partial(declared, "Samples", affects=("samples", "calibrate"))
_IMAGE_STEPS = ("samples", "calibrate", "emit", "pack", "package")
_images = partial(declared, "Samples", needs="images", affects=_IMAGE_STEPS)
_check = partial(declared, "Checks", affects=("check",))
_precision = partial(declared, "Precision", affects=("quantize",))
_latency = partial(declared, "Latency", affects=("bench",))
_bench = partial(declared, "Latency", needs="bench", affects=("bench",))
_running = partial(declared, "Running", affects=("run",))


@dataclass
class _Core:
    """What is asked for, whatever the plug-ins are."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    source: str

    # -- the source
    weights: str | None = _source(
        "--weights",
        "Weights for a model class: .pth, .pt or .safetensors; for a .meta graph, the checkpoint.",
        metavar="FILE",
        usual=True,
    )
    weights_key: str | None = _source(
        "--weights-key", "Where in the checkpoint the state_dict is.", metavar="KEY"
    )
    args: list[Any] = _source(
        "--arg",
        "Constructor argument, as JSON or text; NAME=VALUE for a keyword, or for a placeholder of "
        "a TensorFlow graph.",
        [],
        metavar="[NAME=]VALUE",
    )
    kwargs: dict[str, Any] = field(default_factory=dict, metadata={"affects": ("parse",)})
    inputs: list[str] = _source(
        "--input",
        "An input: name, dtype (float32 if left out) and dimensions, each a number, or a name that "
        "leaves it free (batchx3x224x224). Of a model that says itself what it takes: an input's "
        "new name, or sizes for its free dimensions.",
        [],
        metavar="NAME[:DTYPE]:DIMxDIM",
        usual=True,
    )
    outputs: list[str] = _source("--output", "Name of an output, in order.", [], metavar="NAME")
    dims: dict[str, int] = _source(
        "--dim",
        "Size of a free dimension, for samples and checks. Above 1, it settles what hangs on it "
        "being 1, where a target needs that.",
        {},
        metavar="NAME=SIZE",
        usual=True,
        affects=("parse", "samples", "simplify", "masks", "emit", "package"),
    )
    batch: str | None = _source(
        "--batch",
        "dynamic (free), or a number, whatever --input or the source has first; or keep. Default: "
        "as they have it.",
        metavar="dynamic|keep|N",
        usual=True,
        affects=("parse", "simplify"),
    )
    search_paths: list[str] = _source(
        "--search-path",
        "Folder to import the model's code from.",
        [],
        metavar="DIR",
        affects=("parse", "samples"),
    )
    trust_source: bool = _source(
        "--trust-source",
        "Let the model file run code of its own (pickles, TorchScript, .pt2).",
        False,
        affects=("parse", "emit", "check", "bench"),
    )
    signature: str | None = _source(
        "--signature",
        "Which signature of a SavedModel or .tflite, or function of an ML program. "
        "Default: serving_default, or the only one.",
        metavar="NAME",
    )
    fix: list[str] = _source(
        "--fix",
        "An input that has one value for good, and is no input then: sr=16000.",
        [],
        metavar="NAME=VALUE",
    )
    random_as_input: bool = _source(
        "--random-as-input",
        "Give the model of an ONNX file an input for each node that draws random numbers.",
        False,
    )
    state_as_inputs: bool = _source(
        "--state-as-inputs/--no-state",
        "Make each state that the source keeps between calls an input and an output, or hold it as "
        "it is stored in every call.",
        True,
    )
    layout: str | None = _source(
        "--layout",
        "Layout of image inputs and outputs. Default: as the source has it.",
        choices=("nchw", "nhwc"),
    )
    python: str | None = _source(
        "--python",
        "Interpreter to run the framework in; nothing is installed there. Default: this one.",
        metavar="PATH",
    )
    name: str | None = _source(
        "--name",
        "The model's name. Default: from the source.",
        metavar="NAME",
        affects=("emit", "pack", "package", "results"),
    )

    # -- the targets
    to: list[str] = _target(
        "--to",
        "Target formats, by comma.",
        ["onnx"],
        metavar="FORMAT",
        split=True,
        usual=True,
        values="emitters",
        affects=("plan",),
    )
    precision: list[str] = _target(
        "--precision",
        "Precisions, by comma. fp16+int4-weights (and its like) computes in fp16 beside weights in "
        "fewer bits.",
        ["fp32"],
        metavar="PRECISION",
        split=True,
        usual=True,
        values="precisions",
        affects=("plan",),
    )
    serve: list[str] = _target(
        "--serve",
        "Servers to package for, by comma.",
        [],
        metavar="SERVER",
        split=True,
        usual=True,
        values="servers",
        affects=("plan",),
    )
    out: str | None = _target(
        "--out",
        "The output folder. Default: build/NAME.",
        metavar="DIR",
        usual=True,
        affects=("results",),
    )
    overwrite: bool = _target(
        "--overwrite",
        "Replace an output folder that modelyard made and nobody changed since.",
        False,
        usual=True,
        affects=("results",),
    )
    keep_going: bool = _target(
        "--keep-going",
        "Leave out targets and precisions that can't be, and artifacts that miss a gate, and give "
        "the others; exit code 4 all the same where a gate was missed.",
        False,
        usual=True,
        affects=("plan", "results"),
    )
    repository: str | None = _target(
        "--repository",
        "Also add the served model, at its next version, to this model repository.",
        metavar="DIR",
        affects=("results",),
    )
    one_name: bool = _target(
        "--one-name",
        "Serve every precision under the model's own name, each in a folder of its own; in a "
        "--repository they are versions, in the order of --precision.",
        False,
        needs="precisions",
        affects=("package",),
    )
    shapes: list[str] = _target(
        "--shapes",
        "Smallest, best and largest shape of an input; again for the next profile. Default: from "
        "the samples and --max-batch.",
        [],
        metavar="NAME:MIN,OPT,MAX",
    )
    external_data: bool = _target(
        "--external-data", "Keep weights in a file beside the .onnx (always so above 2 GB).", False
    )
    keep_steps: bool = _target(
        "--keep-steps",
        "Also write the model as read, simplified, in each precision and in what a target has, for "
        "modelyard diff, and compare each simplifying pass by itself.",
        False,
        affects=("plan", "results", "simplify"),
    )
    simplify: bool = _target(
        "--simplify/--no-simplify",
        "Run the simplifying passes.",
        True,
        affects=("simplify", "emit"),
    )
    skip_passes: list[str] = _target(
        "--skip-pass",
        "A pass to leave out.",
        [],
        metavar="PASS",
        values="passes",
        needs="simplify",
        affects=("simplify",),
    )

    # -- what artifacts say of themselves
    description: str | None = _target(
        "--description", "What the model does, for an artifact's metadata.", metavar="TEXT"
    )
    author: str | None = _target("--author", "Who made it, for metadata.", metavar="NAME")
    license: str | None = _target("--license", "Its licence, for metadata.", metavar="TEXT")
    model_version: str | None = _target(
        "--model-version", "Its version, for metadata.", metavar="TEXT"
    )

    # -- the samples
    samples: str | None = _samples(
        "--samples",
        "Inputs for checks and warm-up: .npz, .npy, .csv (numbers, or texts for a model with a "
        "tokenizer), a folder of images or .npz, "
        "FILE.py:FUNCTION, or random:N.",
        metavar="PATH|FILE:FUNCTION|random:N",
        usual=True,
        affects=("samples", "calibrate", "quantize"),
    )
    samples_limit: int | None = _samples(
        "--samples-limit", "Use only the first N samples.", metavar="N"
    )
    samples_pattern: str | None = _samples(
        "--samples-pattern",
        "Only the files of the folder that match, as in imagenet_*.",
        metavar="GLOB",
    )
    labels: str | None = _samples(
        "--labels",
        "Labels: 'filename' (the last number in it), 'folder' (one a class, by their names or "
        "numbers), a CSV of file,label, a key of the .npz, a CSV's column, or 'none'.",
        metavar="filename|folder|CSV|KEY|none",
        usual=True,
        needs="samples",
    )
    label_names: str | None = _samples(
        "--label-names",
        "Names of the classes, one a line.",
        metavar="FILE",
        affects=_IMAGE_STEPS,
    )
    image_size: str | None = _images(
        "--image-size", "Height x width fed to the model. Default: the model's.", metavar="HxW"
    )
    image_resize: str | None = _images(
        "--image-resize",
        "Resize first: the shorter side's length, or HxW. Default: straight to size.",
        metavar="N|HxW",
    )
    image_crop: str = _images(
        "--image-crop", "How a resized image is cut to size.", "center", choices=("center", "none")
    )
    image_scale: float | None = _images(
        "--image-scale",
        "Multiplied with pixels of 0..255 first. Default: 1/255 for float inputs.",
        metavar="X",
    )
    image_mean: list[float] = _images(
        "--image-mean",
        "Subtracted, by channel, after the scale.",
        [],
        metavar="R,G,B",
        split=True,
        usual=True,
    )
    image_std: list[float] = _images(
        "--image-std", "Divided by, by channel.", [], metavar="R,G,B", split=True, usual=True
    )
    image_color: str = _images(
        "--image-color", "Colour order.", "rgb", choices=("rgb", "bgr", "gray")
    )
    image_layout: str | None = _images(
        "--image-layout", "Layout. Default: from the input's shape.", choices=("nchw", "nhwc")
    )
    image_interpolation: str = _images(
        "--image-interpolation",
        "How images are resized.",
        "bilinear",
        choices=("nearest", "bilinear", "bicubic", "lanczos"),
    )
    skip_bad: bool = _samples(
        "--skip-bad", "Leave out samples that can't be read, and name them.", False
    )
    seed: int = _samples(
        "--seed",
        "Seed of random samples.",
        0,
        metavar="N",
        affects=("samples", "calibrate", "check"),
    )

    # -- lower precisions
    calibration_samples: str | None = _precision(
        "--calibration-samples",
        "Samples to measure value ranges on, as --samples. Default: --samples.",
        metavar="PATH|FILE:FUNCTION|random:N",
        needs="quantize",
        affects=("calibrate", "quantize"),
    )
    calibration_limit: int | None = _precision(
        "--calibration-limit",
        "Use only the first N of them.",
        metavar="N",
        needs="quantize",
        affects=("calibrate", "quantize"),
    )
    few_samples: bool = _precision(
        "--few-samples",
        "Calibrate on fewer samples than are needed.",
        False,
        needs="measured",
        affects=("calibrate", "quantize"),
    )
    calibration: str = _precision(
        "--calibration",
        "How a range is taken from what was measured; auto: mse, and minmax where that misses a "
        "gate and there is no budget.",
        "auto",
        choices=("auto", "minmax", "moving", "percentile", "entropy", "mse"),
        needs="integers",
    )
    weight_methods: list[str] = _precision(
        "--weight-methods",
        "What int8, and weights alone in fewer bits, do to weights, by comma (equalize is for "
        "schemes with one scale a weight).",
        ["rounding", "bias"],
        metavar="METHOD",
        split=True,
        values="weight methods",
        needs="weights",
    )
    keep_float: list[str] = _precision(
        "--keep-float",
        "Nodes to leave in float32: a name or an operator, * for any text.",
        [],
        metavar="PATTERN",
        needs="quantize",
    )
    palette_bits: int = _precision(
        "--palette-bits",
        "Bits of a weight in palettized artifacts: 1, 2, 4, 6 or 8.",
        6,
        metavar="N",
        needs="palettes",
    )
    io_dtype: str = _precision(
        "--io-dtype",
        "Type of float32 inputs and outputs: float16 in fp16 artifacts, bfloat16 in bf16 ones, "
        "int8 or uint8 with a scale in int8 ones.",
        "float32",
        choices=("float32", "float16", "bfloat16", "int8", "uint8"),
        affects=("quantize", "emit", "check", "bench"),
    )
    search_evaluations: int | None = _precision(
        "--search-evaluations",
        "Most models that are tried where layers are looked for that have to stay in float32. "
        "Default: by the model's size, for about two minutes.",
        metavar="N",
    )
    search_seconds: float | None = _precision(
        "--search-seconds",
        "End that search by the clock, too: what it finds then depends on the machine.",
        metavar="S",
        needs="search",
    )

    # -- the check
    check: bool = _check(
        "--check/--no-check",
        "Check accuracy against the source; left out, the report says so.",
        True,
        affects=("plan",),
    )
    probes: bool = _check(
        "--probes/--no-probes",
        "Check on other inputs, too: batches, other sizes, edges. Left out, the report says so.",
        True,
        needs="check",
        affects=("reference", "check"),
    )
    metric: list[str] = _check(
        "--metric",
        "Task metrics on labelled samples, by comma; or FILE.py:FUNCTION(outputs, label).",
        [],
        metavar="METRIC",
        split=True,
        usual=True,
        values="metrics",
        needs="check",
        affects=("quantize", "check"),
    )
    min_cosine: float | None = _check(
        "--min-cosine",
        "Gate: smallest cosine to the source; below fp32, as many layers as it takes stay in "
        "float32. Default by precision: 0.9999, 0.999, 0.99.",
        metavar="X",
        usual=True,
        needs="check or quantize",
        affects=("quantize", "emit", "check", "pack", "package"),
    )
    max_abs_error: float | None = _check(
        "--max-abs-error",
        "Gate: largest absolute error.",
        metavar="X",
        needs="check",
        affects=("emit", "check", "pack", "package"),
    )
    max_drop: float | None = _check(
        "--max-drop",
        "Gate: points that the metric may drop; below fp32, as many layers as it takes stay in "
        "float32. Needs labels. Default: 1 for metrics in percent.",
        metavar="POINTS",
        usual=True,
        needs="check or quantize",
        affects=("quantize", "check"),
    )
    max_latency: float | None = _check(
        "--max-latency",
        "Gate: p95 latency at batch 1, in milliseconds.",
        metavar="MS",
        affects=("results",),
    )

    strict: bool = _check(
        "--strict",
        "Exit with 4, as for a missed gate, also where an output couldn't be judged, a lower "
        "precision lowered nothing, or the file has for every input what values decided.",
        False,
        usual=True,
        affects=("results",),
    )

    # -- the latency runs
    bench: bool = _latency(
        "--bench/--no-bench", "Measure latency.", True, usual=True, affects=("plan",)
    )
    bench_batches: list[int] = _bench(
        "--bench-batch",
        "Batch sizes to measure, by comma.",
        [1],
        metavar="N,N",
        split=True,
        affects=("emit", "bench"),
    )
    bench_concurrency: list[int] = _bench(
        "--bench-concurrency,--concurrency",
        "Callers at once, by comma.",
        [1],
        metavar="N,N",
        split=True,
    )
    bench_seconds: float = _bench(
        "--bench-seconds", "Longest time for one point.", 3.0, metavar="S"
    )
    threads: int | None = _latency(
        "--threads",
        "Threads inside one inference. Default: all cores.",
        metavar="N",
        affects=("reference", "check", "bench", "package"),
    )
    providers: list[str] = _latency(
        "--provider",
        "Where ONNX Runtime runs artifacts, by comma. What one can't take "
        "goes to the next, tensorrt's to cuda, all else to the CPU; the report says how much.",
        ["cpu"],
        metavar="NAME",
        split=True,
        values="providers",
        affects=("emit", "check", "bench"),
    )
    cuda_graph: bool = _bench(
        "--cuda-graph/--no-cuda-graph", "Run engines as captured CUDA graphs where they can.", False
    )


@dataclass
class _Running:
    dry_run: bool = _running("--dry-run", "Print the plan and stop.", False, usual=True)
    offline: bool = _running("--offline", "Fetch nothing from a network.", False)
    cache: bool = _running("--cache/--no-cache", "Reuse what earlier runs made.", True)
    reuse_source: bool = _running(
        "--reuse-source",
        "Reuse what an earlier run read of a source that runs code, though files that the code "
        "reads by itself may have changed since.",
        False,
    )


@dataclass
class Request(_Running, _Core):
    """One conversion: what is asked for, whatever the plug-ins are.

    Every field but ``source`` has a default; docs/options.md lists them. A plug-in's own options
    are the fields of a dataclass that extends this one, declared in the entry-point group
    ``modelyard.options``; :meth:`of` gives it a request with both.

    Attributes:
        plugin_options: The plug-ins' options that were given, by the names of their fields.
    """

    plugin_options: dict[str, Any] = field(default_factory=dict)

    def of(self, kind: type[R]) -> R:
        """This request with a plug-in's own options.

        Args:
            kind: The dataclass that declares them.
        """
        if isinstance(self, kind):
            return self
        return kind(**{item.name: self.value(item.name) for item in fields(kind)})

    def value(self, name: str) -> Any:
        """The value of any option, by the name of its field."""
        if hasattr(self, name):
            return getattr(self, name)
        if name in self.plugin_options:
            return self.plugin_options[name]
        plain = field_of(name)
        return plain.default if plain.default_factory is MISSING else plain.default_factory()


R = TypeVar("R", bound=Request)

NO_OPTION = "plugin_options"
"""The field of a request that is no option."""


@cache
def sections() -> tuple[type[Request], ...]:
    """What plug-ins declare their options in, the last first.

    Raises:
        DependencyError: Two of ours have an option of one name, and not from a class that both
            extend.
    """
    known = {item.name: item for item in fields(Request)}
    taken = []
    for name, entry in available("options").items():
        kind = plugins.load("options", name) if name in plugins.working("options") else None
        if kind is None:
            continue
        wrong = _misfit(kind, known)
        if wrong and plugins.is_ours(entry):
            raise DependencyError(wrong)
        if wrong:
            plugins.set_aside("options", entry, wrong)
            continue
        known |= {item.name: item for item in fields(kind)}
        taken.append(kind)
    return tuple(reversed(taken))


def _misfit(kind: Any, known: Mapping[str, Field[Any]]) -> str:
    """Why a plug-in's options can't be taken; empty where they can."""
    if not (isinstance(kind, type) and issubclass(kind, Request) and is_dataclass(kind)):
        return "its options are no dataclass that extends converter.options.request.Request"
    twice = (item.name for item in fields(kind) if known.get(item.name, item) is not item)
    return next((f"two plug-ins have the option {name}" for name in twice), "")


@cache
def all_fields() -> tuple[Field[Any], ...]:
    """Every option's field, the plug-ins' among them, in the order of docs/options.md."""
    found = {item.name: item for item in fields(_Core)}
    for kind in sections():
        for item in fields(kind):
            found.setdefault(item.name, item)
    rest = [item for item in fields(_Running) if found.pop(item.name, None)]
    found.pop(NO_OPTION)
    return (*found.values(), *rest)


_OF_CORE = frozenset(item.name for item in fields(Request))


@cache
def _fields_by_name() -> dict[str, Field[Any]]:
    return {item.name: item for item in all_fields()}


def field_of(name: str) -> Field[Any]:
    """The field of an option; raises KeyError where there is none."""
    return _fields_by_name()[name]


def option_of(name: str) -> Option:
    """How the command line spells the field ``name``."""
    return options()[name]


@cache
def options() -> dict[str, Option]:
    """How the command line spells each field that it has."""
    return {
        n: item.metadata["option"]
        for n, item in _fields_by_name().items()
        if "option" in item.metadata
    }


def group(name: str) -> tuple[str, ...]:
    """The fields whose options stand under the heading ``name``, in order."""
    return tuple(field for field, option in options().items() if option.group == name)


def taken(names: Collection[str]) -> tuple[str, ...]:
    """The fields that a plug-in's ``options`` name, by themselves or by their heading."""
    return tuple(n for n, option in options().items() if n in names or option.group in names)


def affecting(kind: str, names: Collection[str] = ()) -> tuple[str, ...]:
    """The fields that can change what a step gives, in order.

    Args:
        kind: Of :data:`converter.options.option.STEPS`.
        names: Those of the step's own target or server: what others declare isn't for it. What
            sources do all counts for ``parse``: there is one.
    """
    others = set(of_plugins()).difference(taken(names)) if kind != "parse" else ()
    found = (item for item in all_fields() if kind in item.metadata.get("affects", ()))
    return tuple(item.name for item in found if item.name not in others)


@cache
def of_plugins() -> tuple[str, ...]:
    """The fields that plug-ins declare."""
    return tuple(name for name in options() if name not in _OF_CORE)


@cache
def opening() -> tuple[str, ...]:
    """Those of them that say how an artifact is opened, to be checked or measured."""
    affects = {item.name: item.metadata.get("affects", ()) for item in all_fields()}
    return tuple(name for name in of_plugins() if "check" in affects[name])


IMAGE_OPTIONS = tuple(
    item.name
    for item in fields(_Core)
    if "option" in item.metadata and item.metadata["option"].needs == "images"
)
"""The fields that say how images are prepared."""
