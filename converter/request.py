"""What a user asks for: one dataclass for the command line, a recipe and a Python call.

Every option is declared here once, with its default, its flags and its help; the command
line builds its options from these fields, and a recipe's keys are their names. Only the
standard library is imported here, so that ``modelyard --help`` starts in a blink.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar

from converter.option import Option, declared

_source = partial(declared, "Source")
_target = partial(declared, "Targets")
_samples = partial(declared, "Samples")
_images = partial(declared, "Samples", needs="images")
_check = partial(declared, "Checks")
_precision = partial(declared, "Precision")
_latency = partial(declared, "Latency")
_bench = partial(declared, "Latency", needs="bench")
_tensorrt = partial(declared, "TensorRT")
_coreml = partial(declared, "Core ML")
_serving = partial(declared, "Serving")
_running = partial(declared, "Running")


@dataclass
class Request:
    """One conversion. Every field but ``source`` has a default; docs/options.md lists them."""

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
    kwargs: dict[str, Any] = field(default_factory=dict)
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
    )
    batch: str | None = _source(
        "--batch",
        "dynamic (free), or a number, whatever --input or the source has first; or keep. Default: "
        "as they have it.",
        metavar="dynamic|keep|N",
        usual=True,
    )
    submodule: str | None = _source(
        "--submodule",
        "Convert only this part of a PyTorch model, by its dotted name.",
        metavar="NAME",
    )
    search_paths: list[str] = _source(
        "--search-path", "Folder to import the model's code from.", [], metavar="DIR"
    )
    trust_source: bool = _source(
        "--trust-source",
        "Let the model file run code of its own (pickles, TorchScript, .pt2).",
        False,
    )
    signature: str | None = _source(
        "--signature",
        "Which signature of a SavedModel or .tflite, or function of an ML program. "
        "Default: serving_default, or the only one.",
        metavar="NAME",
    )
    task: str | None = _source(
        "--task",
        "What a Hugging Face model is to do: text-classification, sentence-embedding... "
        "Default: from its config.",
        metavar="TASK",
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
        "--name", "The model's name. Default: from the source.", metavar="NAME"
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
    )
    serve: list[str] = _target(
        "--serve",
        "Servers to package for, by comma.",
        [],
        metavar="SERVER",
        split=True,
        usual=True,
        values="servers",
    )
    out: str | None = _target(
        "--out", "The output folder. Default: build/NAME.", metavar="DIR", usual=True
    )
    overwrite: bool = _target(
        "--overwrite",
        "Replace an output folder that modelyard made and nobody changed since.",
        False,
        usual=True,
    )
    keep_going: bool = _target(
        "--keep-going",
        "Leave out targets and precisions that can't be, and artifacts that miss a gate, and give "
        "the others; exit code 4 all the same where a gate was missed.",
        False,
        usual=True,
    )
    repository: str | None = _target(
        "--repository",
        "Also add the served model, at its next version, to this model repository.",
        metavar="DIR",
    )
    external_data: bool = _target(
        "--external-data", "Keep weights in a file beside the .onnx (always so above 2 GB).", False
    )
    keep_steps: bool = _target(
        "--keep-steps",
        "Also write the model as read, simplified, and in each precision, for modelyard diff.",
        False,
    )
    simplify: bool = _target("--simplify/--no-simplify", "Run the simplifying passes.", True)
    skip_passes: list[str] = _target(
        "--skip-pass", "A pass to leave out.", [], metavar="PASS", values="passes", needs="simplify"
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
    metadata: dict[str, str] = _target(
        "--metadata", "More of Core ML's metadata.", {}, metavar="NAME=VALUE"
    )

    # -- the samples
    samples: str | None = _samples(
        "--samples",
        "Inputs for checks and warm-up: .npz, .npy, .csv (numbers, or texts for a model with a "
        "tokenizer), a folder of images or .npz, "
        "FILE.py:FUNCTION, or random:N.",
        metavar="PATH|FILE:FUNCTION|random:N",
        usual=True,
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
        "--label-names", "Names of the classes, one a line.", metavar="FILE"
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
    seed: int = _samples("--seed", "Seed of random samples.", 0, metavar="N")

    # -- lower precisions
    calibration_samples: str | None = _precision(
        "--calibration-samples",
        "Samples to measure value ranges on, as --samples. Default: --samples.",
        metavar="PATH|FILE:FUNCTION|random:N",
        needs="lower",
    )
    calibration_limit: int | None = _precision(
        "--calibration-limit", "Use only the first N of them.", metavar="N", needs="lower"
    )
    few_samples: bool = _precision(
        "--few-samples", "Calibrate on fewer samples than are needed.", False, needs="integers"
    )
    calibration: str = _precision(
        "--calibration",
        "How a range is taken from what was measured.",
        "mse",
        choices=("minmax", "moving", "percentile", "entropy", "mse"),
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
        needs="lower",
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
    )
    min_cosine: float | None = _check(
        "--min-cosine",
        "Gate: smallest cosine to the source; below fp32, as many layers as it takes stay in "
        "float32. Default by precision: 0.9999, 0.999, 0.99.",
        metavar="X",
        usual=True,
        needs="check or lower",
    )
    max_abs_error: float | None = _check(
        "--max-abs-error", "Gate: largest absolute error.", metavar="X", needs="check"
    )
    max_drop: float | None = _check(
        "--max-drop",
        "Gate: points that the metric may drop; below fp32, as many layers as it takes stay in "
        "float32. Needs labels. Default: 1 for metrics in percent.",
        metavar="POINTS",
        usual=True,
        needs="check or lower",
    )
    max_latency: float | None = _check(
        "--max-latency", "Gate: p95 latency at batch 1, in milliseconds.", metavar="MS"
    )

    strict: bool = _check(
        "--strict",
        "Exit with 4, as for a missed gate, also where an output couldn't be judged or a lower "
        "precision lowered nothing.",
        False,
        usual=True,
    )

    # -- the latency runs
    bench: bool = _latency("--bench/--no-bench", "Measure latency.", True, usual=True)
    bench_batches: list[int] = _bench(
        "--bench-batch", "Batch sizes to measure, by comma.", [1], metavar="N,N", split=True
    )
    bench_concurrency: list[int] = _bench(
        "--bench-concurrency", "Callers at once, by comma.", [1], metavar="N,N", split=True
    )
    bench_seconds: float = _bench(
        "--bench-seconds", "Longest time for one point.", 3.0, metavar="S"
    )
    threads: int | None = _latency(
        "--threads", "Threads inside one inference. Default: all cores.", metavar="N"
    )
    providers: list[str] = _latency(
        "--provider",
        "Where ONNX Runtime runs artifacts, by comma. What one can't take "
        "goes to the next, tensorrt's to cuda, all else to the CPU; the report says how much.",
        ["cpu"],
        metavar="NAME",
        split=True,
        values="providers",
    )
    cuda_graph: bool = _bench(
        "--cuda-graph/--no-cuda-graph", "Run engines as captured CUDA graphs where they can.", False
    )

    # -- the server's folder
    max_batch: int | None = _serving(
        "--max-batch",
        "Largest batch the server may build. Default: 8 where the model takes batches, else 0.",
        metavar="N",
    )
    dynamic_batching: bool = _serving(
        "--dynamic-batching/--no-dynamic-batching", "Let the server batch requests.", True
    )
    preferred_batch: list[int] = _serving(
        "--preferred-batch",
        "Batch sizes the server should prefer, by comma.",
        [],
        metavar="N,N",
        split=True,
        needs="batching",
    )
    queue_delay: int = _serving(
        "--queue-delay",
        "Microseconds a request may wait for a batch.",
        100,
        metavar="US",
        needs="batching",
    )
    instances: int = _serving("--instances", "Instances of the model.", 1, metavar="N")
    instance_kind: str | None = _serving(
        "--instance-kind",
        "Where instances run. Default: cpu; with TensorRT, on GPUs.",
        choices=("auto", "cpu", "gpu"),
    )
    version: int = _serving(
        "--version", "Version number of the model in its folder.", 1, metavar="N"
    )
    version_policy: str = _serving(
        "--version-policy", "latest:N, all, or specific:N,N.", "latest:1", metavar="POLICY"
    )
    response_cache: bool = _serving(
        "--response-cache", "Let the server answer repeated requests from its cache.", False
    )
    warmup: int = _serving(
        "--warmup", "Samples to warm each batch size up with; 0 for none.", 1, metavar="N"
    )
    optimization: str | None = _serving(
        "--optimization",
        "The backend's graph optimization level.",
        choices=("none", "basic", "extended", "all"),
    )
    parameters: dict[str, str] = _serving(
        "--parameter", "A parameter for the server's configuration.", {}, metavar="NAME=VALUE"
    )

    # -- TensorRT engines
    shapes: list[str] = _tensorrt(
        "--shapes",
        "Smallest, best and largest shape of an input; again for the next profile. Default: from "
        "the samples and --max-batch.",
        [],
        metavar="NAME:MIN,OPT,MAX",
    )
    optimization_level: int | None = _tensorrt(
        "--optimization-level",
        "How long the builder looks for faster kernels, 0 to 5. Default: the library's.",
        metavar="0..5",
    )
    workspace: int | None = _tensorrt(
        "--workspace", "Most scratch memory that a layer may take.", metavar="MiB"
    )
    timing_cache: bool = _tensorrt(
        "--timing-cache/--no-timing-cache",
        "Keep the builder's timings, by device and version, for the next build.",
        True,
    )
    version_compatible: bool = _tensorrt(
        "--version-compatible", "An engine that later versions of the library load.", False
    )
    hardware_compatible: str | None = _tensorrt(
        "--hardware-compatible",
        "An engine for other devices than the one it was built on.",
        choices=("ampere+", "same-compute-capability"),
    )
    strip_weights: bool = _tensorrt(
        "--strip-weights", "Leave the weights out of the engine; model.onnx has them.", False
    )
    refit: bool = _tensorrt("--refit", "An engine whose weights can be replaced.", False)
    weight_streaming: bool = _tensorrt(
        "--weight-streaming", "An engine whose weights may stay in the host's memory.", False
    )
    sparsity: bool = _tensorrt("--sparsity", "Use kernels for 2:4 sparse weights.", False)
    tf32: bool = _tensorrt(
        "--tf32/--no-tf32", "Let float32 products round their inputs to 10 bits.", True
    )
    compute_capabilities: list[str] = _tensorrt(
        "--compute-capability",
        "Compute capabilities to build for, by comma (tensorrt-rtx). Default: the device's; "
        "8.6, 8.9, 12.0 without one.",
        [],
        metavar="X.Y,X.Y",
        split=True,
    )
    plugins: list[str] = _tensorrt(
        "--plugin",
        "A TensorRT plugin library, by its path; it runs code: needs --trust-source.",
        [],
        metavar="FILE.so",
    )

    # -- Core ML packages
    coreml_target: str = _coreml(
        "--coreml-target",
        "The oldest system that the package is for.",
        "iOS17",
        choices=("iOS15", "iOS16", "iOS17", "iOS18", "iOS26"),
    )
    compute_units: str | None = _coreml(
        "--compute-units",
        "Where the package is to run: noted in it, in the manifest and in the Swift snippet, and "
        "used by checks on a Mac. Default: all, or what the package says.",
        choices=("all", "cpu-and-ne", "cpu-and-gpu", "cpu-only"),
    )
    coreml_shapes: list[str] = _coreml(
        "--coreml-shapes",
        "The only shapes of an input, the usual one first. Default: a range (--shapes).",
        [],
        metavar="NAME:SHAPE,SHAPE",
    )
    coreml_images: list[str] = _coreml(
        "--coreml-image",
        "An input that the package takes as an image, prepared by the --image-* options.",
        [],
        metavar="NAME",
    )
    coreml_classifier: bool = _coreml(
        "--coreml-classifier",
        "Have the package give class names (--label-names) and their scores.",
        False,
    )

    # -- how it runs
    dry_run: bool = _running("--dry-run", "Print the plan and stop.", False, usual=True)
    offline: bool = _running("--offline", "Fetch nothing from a network.", False)
    cache: bool = _running("--cache/--no-cache", "Reuse what earlier runs made.", True)
    reuse_source: bool = _running(
        "--reuse-source",
        "Reuse what an earlier run read of a source that runs code, though files that the code "
        "reads by itself may have changed since.",
        False,
    )


def option_of(name: str) -> Option:
    """How the command line spells the field ``name``."""
    return _OPTIONS[name]


_OPTIONS: dict[str, Option] = {
    item.name: item.metadata["option"] for item in fields(Request) if "option" in item.metadata
}


def group(name: str) -> tuple[str, ...]:
    """The fields whose options stand under the heading ``name``, in order."""
    return tuple(field for field, option in _OPTIONS.items() if option.group == name)


IMAGE_OPTIONS = tuple(field for field, option in _OPTIONS.items() if option.needs == "images")
"""The fields that say how images are prepared."""
