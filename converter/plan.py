"""Turns a request into an ordered list of steps; pure, it touches no file.

Steps that several targets share (parse, simplify) are planned once. A step's key is the
hash of its kind, its parameters, the versions of what carries it out and the keys of the
steps it needs: everything that can change its result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from converter.digest import digest_of
from converter.errors import UsageError
from converter.quantize.scheme import SIXTEEN
from converter.request import Request, group, option_of

IMPORT_PASSES = ("upgrade-opset", "repair-shapes")
"""What every model goes through, simplified or not."""

SIMPLIFY_PASSES = (
    *("cleanup", "transposes", "ort-basic", "onnxscript"),
    *("fuse-shapes", "fuse-padding", "fuse-activation", "fuse-normalization", "fuse-convolution"),
    *("onnxsim", "onnxslim"),
)
"""The simplifying passes, in the order that left the fewest nodes on the real models of the
tests, with the fewest changes to verify. ort-basic takes HardSwish apart again, so it comes before
the fusing passes; and activations are recognized before a scale of theirs goes into a Conv."""

_WEIGHTS = ("int8-weights", "int4-weights", "palettized")
STORED = (*_WEIGHTS, *(f"fp16+{name}" for name in _WEIGHTS))
"""The precisions that store weights alone in fewer bits, and compute in float32, or in fp16."""

HALVES = ("fp16", "bf16", *(name for name in STORED if name.startswith("fp16+")))
"""The precisions that compute in floats of 16 bits."""

PALETTE_BITS = (1, 2, 4, 6, 8)
"""What ``--palette-bits`` may be: the tables that Core ML has from iOS 16 on."""

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "int16x8", "int8-dynamic", *STORED)
"""The precisions that can be asked for."""

CALIBRATED = ("int8", "int16x8")
"""The precisions whose activations are integers, with scales that are measured on samples."""

WEIGHT_ONLY = ("tflite-int8",)
"""Schemes of targets whose int8-dynamic is int8 weights beside float activations; for all others,
it is what ONNX Runtime runs."""

NARROW_IO = {"fp16": ("float16",), "bf16": ("bfloat16",), "int8": ("int8", "uint8")}
"""What ``--io-dtype`` may ask for, by precision."""


@dataclass(frozen=True)
class Step:
    """One thing to do.

    Attributes:
        id: ``parse``, ``check:onnx:fp32``...
        kind: What carries it out; the part of the id before the first colon.
        title: What it does, for people.
        needs: Ids of the steps whose results it takes.
        params: Everything of the request that can change its result; JSON values.
        tools: Packages whose versions can change its result.
        kept: Whether its result may be kept in the cache.
        alone: Nothing may run beside it: it measures time, or has threads for every core, and
            two such pools that spin for the same cores cost many times what either does alone.
    """

    id: str
    title: str
    needs: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    kept: bool = False
    alone: bool = False

    @property
    def model(self) -> str:
        """The step whose model it writes or packages."""
        return next((id for id in self.needs if id.startswith("lower:")), "simplify")

    @property
    def kind(self) -> str:
        """What carries it out."""
        return self.id.split(":", 1)[0]

    def key(self, needs: Sequence[str], versions: Mapping[str, str]) -> str:
        """Its content key, given the keys of what it needs."""
        tools = {name: versions.get(name, "") for name in self.tools}
        return digest_of([self.kind, dict(self.params), tools, list(needs)])


@dataclass(frozen=True)
class Plan:
    """Steps in an order in which they can run, each after what it needs.

    Attributes:
        steps: The steps.
        skipped: Why artifacts that were asked for aren't planned, by ``target:precision``.
    """

    steps: tuple[Step, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)

    def step(self, id: str) -> Step:
        """The step of that id."""
        return next(step for step in self.steps if step.id == id)

    def has(self, id: str) -> bool:
        """Whether there is such a step."""
        return any(step.id == id for step in self.steps)

    def wanted(self, left: Collection[str]) -> set[str]:
        """The steps that still lead to an artifact where those of ``left`` can't be done."""
        gone = set(left)
        for step in self.steps:
            if gone.intersection(step.needs):
                gone.add(step.id)
        found: set[str] = set()
        needed: set[str] = set()
        for step in reversed(self.steps):
            for_others = step.kind in ("masks", "calibrate", "lower")
            if step.id in gone or step.kind == "trace" or (for_others and step.id not in needed):
                continue
            found.add(step.id)
            needed.update(step.needs)
        traces = {step.id for step in self.steps if step.kind == "trace"} - gone
        return found | {id for id in traces if found.issuperset(self.step(id).needs)}


_SOURCE = (
    "inputs", "outputs", "dims", "batch", "args", "kwargs", "weights_key", "trust_source",
    "signature", "task", "fix", "layout", "submodule", "random_as_input",
)  # fmt: skip
_TOOLS = (
    "onnx", "onnx-ir", "onnxscript", "onnxsim", "onnxslim", "onnxruntime", "onnxruntime-gpu",
    "numpy",
)  # fmt: skip


def plan(
    request: Request,
    serves: Mapping[str, Sequence[str]],
    schemes: Mapping[str, str] | None = None,
    skipped: Mapping[str, str] | None = None,
) -> Plan:
    """The steps that carry out ``request``.

    Args:
        request: What is asked for.
        serves: For each server asked for, the targets that it accepts, best first.
        schemes: The int8 scheme of each target.
        skipped: Why artifacts can't be, by ``target:precision``.

    Raises:
        UsageError: The request contradicts itself.
    """
    require_known(request)
    schemes, skipped = schemes or {}, skipped or {}
    asked = [(target, name) for target in request.to for name in request.precision]
    pairs = [pair for pair in asked if ":".join(pair) not in skipped]
    steps = [
        Step("parse", "reading the model", params=_take(request, _SOURCE), kept=True),
        Step("samples", "reading the samples", ("parse",), _take(request, group("Samples"))),
        _simplify(request),
    ]
    if request.check:
        steps.append(
            Step(
                "reference",
                "running the source model",
                ("parse", "samples"),
                kept=True,
                alone=True,
            )
        )
    lowering = _lowering(request, pairs, schemes)
    steps += lowering
    if request.check:
        changed = [step.id for step in lowering if step.kind == "lower"]
        traced = ["simplify", *changed] if changed or request.keep_steps else ()
        steps += [_trace(id) for id in traced]
    for target, precision in pairs:
        lowered = lowering_of(precision, schemes.get(target, ""))
        steps += _artifact_steps(request, f"{target}:{precision}", lowered)
    for server in request.serve:
        steps += _package_steps(request, server, serves[server], pairs, schemes)
    return Plan(tuple(steps), skipped)


def _take(request: Request, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(request, name) for name in names}


def _simplify(request: Request) -> Step:
    chosen = [name for name in SIMPLIFY_PASSES if name not in request.skip_passes]
    passes = [*IMPORT_PASSES, *(chosen if request.simplify else ())]
    return Step(
        "simplify",
        "simplifying" if request.simplify else "bringing it to one opset",
        ("parse", "samples"),
        {"passes": passes, "batch": request.batch, "dims": request.dims},
        _TOOLS,
        kept=True,
    )


def lowering_of(precision: str, scheme: str) -> str:
    """The step that brings the model to a precision; empty for float32, as it is."""
    if precision == "fp32":
        return ""
    if precision == "int16x8":
        return f"lower:{precision}:{SIXTEEN.get(scheme, scheme)}"
    own = precision == "int8" or (precision == "int8-dynamic" and scheme in WEIGHT_ONLY)
    return f"lower:{precision}:{scheme}" if own else f"lower:{precision}"


def _lowering(
    request: Request, pairs: Collection[tuple[str, str]], schemes: Mapping[str, str]
) -> list[Step]:
    """One calibration, then a step for each precision, and for each scheme of int8.

    int8 takes the model with its masks clamped, whose ranges are others; fp16 has its own way with
    masks, and takes the model as it is.
    """
    wanted = {
        lowering_of(precision, schemes.get(target, "")): precision
        for precision in request.precision
        for target in request.to
        if precision != "fp32" and (target, precision) in pairs
    }
    half = [id for id, precision in wanted.items() if precision in HALVES]
    int8 = [id for id, precision in wanted.items() if precision in CALIBRATED]
    steps = []
    if half:
        steps.append(_calibrate(request, "calibrate", ("simplify", "samples")))
    if int8:
        needs = ("simplify", "samples")
        dims = {"dims": request.dims}
        steps.append(Step("masks", "clamping masks", needs, dims, _TOOLS, kept=True))
        needs = ("masks", "samples", *(("calibrate",) if half else ()))
        steps.append(_calibrate(request, "calibrate:int8", needs))
    for id, precision in wanted.items():
        needs = (
            ("masks", "samples", "calibrate:int8")
            if id in int8
            else ("simplify", "samples", *(("calibrate",) if id in half else ()))
        )
        asked = _take(request, group("Precision"))
        options = {"what": id, **asked, "budget": _budget(request)}
        if precision in STORED:  # what tables a weight may have
            options["grouped"] = has_grouped_tables(request)
            options["learns"] = has_own_samples(request)
        steps.append(
            Step(
                id,
                f"bringing it to {precision}",
                needs,
                options,
                _TOOLS,
                kept=not _is_judged_by_code(request),
                alone=True,
            )
        )
    return steps


def _is_judged_by_code(request: Request) -> bool:
    """Whether a metric of the user's, which may read what nobody knows of, decides what a lower
    precision may cost."""
    return request.max_drop is not None and any(":" in name for name in request.metric)


def has_grouped_tables(request: Request) -> bool:
    """Whether palettized weights may have a table for each group of channels: Core ML has them
    from iOS 18 on, and standard operators do at any time."""
    return "coreml" not in request.to or int(request.coreml_target.removeprefix("iOS")) >= 18


def has_own_samples(request: Request) -> bool:
    """Whether there are samples that weights can be fitted to: not made up ones."""
    asked = request.calibration_samples or request.samples
    return asked is not None and not asked.startswith("random:")


def _calibrate(request: Request, id: str, needs: tuple[str, ...]) -> Step:
    taken = (*group("Samples"), "calibration_samples", "calibration_limit", "few_samples")
    options = _take(request, taken)
    title = "measuring value ranges"
    return Step(id, title, needs, options, _TOOLS, kept=True, alone=True)


def _trace(changed: str) -> Step:
    """Compares the model that a step gives with the one before it."""
    what = changed.removeprefix("lower:").split(":")[0].replace("simplify", "simplifying")
    return Step(
        f"trace:{changed}",
        f"following the error of {what} along the graph",
        ("parse" if changed == "simplify" else changed, "simplify", "samples"),
        {},
        _TOOLS,
        kept=True,
        alone=True,
    )


def _budget(request: Request) -> dict[str, Any]:
    """What a lower precision may cost, where the user said so."""
    metric = request.metric if request.max_drop is not None else []
    return {"min_cosine": request.min_cosine, "max_drop": request.max_drop, "metric": metric}


def _artifact_steps(request: Request, what: str, lowered: str) -> list[Step]:
    target, precision = what.split(":")
    steps = [
        Step(
            f"emit:{what}",
            f"writing {target} {precision}",
            ("simplify", *((lowered,) if lowered else ())),
            {"external_data": request.external_data, **_take(request, group("TensorRT"))},
        )
    ]
    if request.check:
        needs = (f"emit:{what}", "reference", "samples")
        steps.append(
            Step(
                f"check:{what}",
                f"checking {target} {precision}",
                needs,
                _take(request, group("Checks")),
                alone=True,
            )
        )
    if request.bench:
        steps.append(
            Step(
                f"bench:{what}",
                f"measuring {target} {precision}",
                (f"emit:{what}", "samples"),
                _take(request, group("Latency")),
                alone=True,
            )
        )
    return steps


def _package_steps(
    request: Request,
    server: str,
    accepts: Sequence[str],
    pairs: Collection[tuple[str, str]],
    schemes: Mapping[str, str],
) -> list[Step]:
    """Packages of each precision, of the target that the server takes best and that has it."""
    targets = [target for target in accepts if target in request.to]
    if not targets and "tensorrt-rtx" in request.to:
        raise UsageError(f"{server} can't load plans of TensorRT-RTX", hint="Use --to tensorrt.")
    if not targets:
        raise UsageError(
            f"{server} can't serve {', '.join(request.to)}",
            hint=f"It serves {', '.join(accepts)}: add one of them to --to.",
        )
    served = {
        name: next((target for target in targets if (target, name) in pairs), None)
        for name in request.precision
    }
    return [
        Step(
            f"package:{server}:{target}:{precision}",
            f"packaging {target} {precision} for {server}",
            (
                f"emit:{target}:{precision}",
                lowering_of(precision, schemes.get(target, "")) or "simplify",
                "samples",
                *(("reference",) if request.check else ()),
            ),
            _take(request, group("Serving")),
        )
        for precision, target in served.items()
        if target
    ]


def require_known(request: Request) -> None:
    """Refuses what contradicts itself, or names what there isn't, whatever the targets are.

    Raises:
        UsageError: It says what.
    """
    unknown = [item for item in request.precision if item not in PRECISIONS]
    if unknown:
        raise UsageError(
            f"there is no precision {', '.join(unknown)}",
            hint=f"There are: {', '.join(PRECISIONS)}.",
        )
    unknown = [item for item in request.skip_passes if item not in SIMPLIFY_PASSES]
    if unknown:
        raise UsageError(
            f"there is no pass {', '.join(unknown)} to skip",
            hint=f"There are: {', '.join(SIMPLIFY_PASSES)}.",
        )
    for name in ("search_evaluations", "search_seconds"):
        limit = getattr(request, name)
        if limit is not None and limit < 0:
            raise UsageError(f"{option_of(name).flags[0]} {limit:g}: it is at least 0")
    if request.min_cosine is not None and not -1 <= request.min_cosine <= 1:
        raise UsageError(f"--min-cosine {request.min_cosine!r}: a cosine is at most 1")
    _require_batch(request.batch)
    require_io_dtype(request)
    if request.palette_bits not in PALETTE_BITS:
        raise UsageError(
            f"--palette-bits {request.palette_bits}: it is one of "
            f"{', '.join(map(str, PALETTE_BITS))}"
        )
    if request.max_latency is not None:
        _require_point(request)
    if request.repository and not request.serve:
        raise UsageError("--repository needs --serve", hint="Add --serve triton.")
    for name in ("to", "precision", "serve"):
        values = getattr(request, name)
        if len(set(values)) != len(values):
            raise UsageError(f"--{name} names {', '.join(values)}: one of them twice")


def io_dtype_of(request: Request, precision: str) -> str:
    """The type of an artifact's inputs and outputs that are float32 in the source."""
    asked = request.io_dtype
    return asked if asked in NARROW_IO.get(precision.split("+")[0], ()) else "float32"


def require_io_dtype(request: Request) -> None:
    """Refuses a type of inputs and outputs that no precision asked for computes in.

    Raises:
        UsageError: ``--io-dtype float16`` without fp16, ``bfloat16`` without bf16, integers
            without int8.
    """
    asked = request.io_dtype
    wanted = next((name for name, dtypes in NARROW_IO.items() if asked in dtypes), None)
    if wanted and wanted not in {precision.split("+")[0] for precision in request.precision}:
        raise UsageError(
            f"--io-dtype {asked} is for {wanted} artifacts, and --precision asks for "
            f"{', '.join(request.precision)}",
            hint=f"Add {wanted} to --precision. Artifacts of other precisions keep float32 inputs "
            "and outputs.",
        )


def _require_batch(batch: str | None) -> None:
    if batch in (None, "dynamic", "keep") or (batch.isdecimal() and int(batch) > 0):
        return
    raise UsageError(f"--batch {batch}: it is dynamic, keep, or a number of at least 1")


def _require_point(request: Request) -> None:
    """A latency gate is judged at batch 1 with one caller: that has to be measured."""
    if not request.bench:
        raise UsageError("--max-latency needs the latency runs", hint="Leave --no-bench out.")
    if 1 not in request.bench_batches or 1 not in request.bench_concurrency:
        raise UsageError(
            "--max-latency is judged at batch 1 with one caller",
            hint="Have 1 in --bench-batch and in --bench-concurrency.",
        )
