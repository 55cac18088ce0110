"""Turns a request into an ordered list of steps; pure, it touches no file.

Steps that several targets share (parse, simplify) are planned once. A step's key is the
hash of its kind, its parameters, the versions of what carries it out and the keys of the
steps it needs: everything that can change its result.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from converter import plugins
from converter.errors import UsageError
from converter.files.digest import digest_of
from converter.options.precisions import PRECISIONS
from converter.options.request import Request, affecting, option_of
from converter.options.resolved import (
    has_grouped_tables,
    has_own_samples,
    memory_limit,
    passes_left_out,
)
from converter.passes.order import IMPORT_PASSES, pass_names, simplify_passes
from converter.precision.int8.scheme import Scheme

PALETTE_BITS = (1, 2, 4, 6, 8)
"""What ``--palette-bits`` may be."""

MODELS = threading.Lock()
"""Held while models are run beside other steps: by whoever has threads for every core."""

AUTO, FIRST, SECOND = "auto", "mse", "minmax"
"""What ``--calibration`` is where nobody names a method; the one that is taken then, and the one
that is tried where its artifact misses a gate."""

SIMPLIFY = "simplify"
"""The id of the step that gives the model in float32."""


@dataclass(frozen=True)
class Step:
    """One thing to do.

    Attributes:
        kind: What carries it out: ``parse``, ``check``...
        title: What it does, for people.
        needs: Ids of the steps whose results it takes.
        params: Everything of the request that can change its result; JSON values. Which options
            do is said where each is declared (:func:`converter.options.option.declared`).
        tools: Packages whose versions can change its result.
        kept: Whether its result may be kept in the cache.
        alone: Nothing may run beside it: it measures time, or has threads for every core, and
            two such pools that spin for the same cores cost many times what either does alone.
        threaded: It has threads for every core, and beside it only what is ``light`` may run.
        light: It has one thread, and none of others that it doesn't hold :data:`MODELS` for.
        server, target, precision, scheme: What it is for, where it is for one of them.
        model: The step whose model it takes: writes, packages, or follows the error of.
        method: How ranges are taken from what was measured, where it isn't the first way.
        otherwise: The method to try once where an artifact of what this gives misses a gate.
        part: The part of the request that it is of, for people: inside a plan, which is one
            part's, it is empty.
    """

    kind: str
    title: str
    needs: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    kept: bool = False
    alone: bool = False
    threaded: bool = False
    light: bool = False
    server: str = ""
    target: str = ""
    precision: str = ""
    scheme: str = ""
    model: str = SIMPLIFY
    method: str = ""
    otherwise: str = ""
    part: str = ""

    @property
    def id(self) -> str:
        """Its name in the plan: ``parse``, ``check:onnx:fp32``, ``quantize:int8:onnx-qdq``..."""
        followed = self.model if self.kind == "trace" else ""
        names = (self.kind, followed, self.server, self.target, self.precision, self.scheme)
        own = ":".join(filter(None, (*names, self.method)))
        return f"{self.part}/{own}" if self.part else own

    def of(self, part: str) -> Step:
        """This step of a part, as people are told of it."""
        if not part:
            return self
        needs = tuple(f"{part}/{need}" for need in self.needs)
        return replace(self, part=part, needs=needs, title=f"{part}: {self.title}")

    @property
    def what(self) -> str:
        """What it is for, for people: ``onnx int8``."""
        parts = (self.server, self.target, self.precision, self.scheme, self.method)
        return " ".join(filter(None, parts))

    def beside(self, other: Step) -> bool:
        """Whether it may run while another does."""
        if self.alone or other.alone:
            return False
        return (self.light or not other.threaded) and (other.light or not self.threaded)

    def key(
        self,
        needs: Sequence[str],
        versions: Mapping[str, str],
        contents: Mapping[str, Any] | None = None,
    ) -> str:
        """Its content key.

        Args:
            needs: The keys of what it needs.
            versions: Of packages.
            contents: What stands for params that name files.
        """
        tools = {name: versions.get(name, "") for name in self.tools}
        return digest_of([self.kind, {**self.params, **(contents or {})}, tools, list(needs)])


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

    def made_of(self, emit: Step, lowered: Step) -> Plan:
        """The plan with an artifact of another model.

        Args:
            emit: The step that writes the artifact.
            lowered: The step that gives the model; put in where it isn't planned.
        """
        steps: list[Step] = []
        for step in self.steps:
            if step.id == emit.id and not self.has(lowered.id):
                steps.append(lowered)
            if (step.target, step.precision) == (emit.target, emit.precision):
                needs = (lowered.id if need == emit.model else need for need in step.needs)
                step = replace(step, needs=tuple(needs), model=lowered.id)
            steps.append(step)
        return replace(self, steps=tuple(steps))

    def asked_of(self, request: Request, target: str) -> Request:
        """A request with the precisions that a target has."""
        had = [name for name in request.precision if f"{target}:{name}" not in self.skipped]
        return request if request.precision == had else replace(request, precision=had)

    def settled(self) -> Plan:
        """The plan without models that no artifact is made of any more, and with what is made of
        the others traced as theirs were."""
        used = {step.model for step in self.steps if step.kind == "emit"}
        models = {step.id for step in self.steps if step.kind == "quantize"}
        traced = any(step.kind == "trace" for step in self.steps)
        steps: list[Step] = []
        for step in self.steps:
            if (step.model if step.kind == "trace" else step.id) in models - used:
                continue
            steps.append(step)
            if step.method and traced and not self.has(_trace(step).id):
                steps.append(_trace(step))
        return replace(self, steps=tuple(steps))

    def beside(self, step: Step, *kinds: str) -> list[Step]:
        """The steps of these kinds for the artifact of ``step``, in the plan's order."""
        artifact = (step.target, step.precision)
        made = (other for other in self.steps if (other.target, other.precision) == artifact)
        return [other for other in made if other.kind in kinds]

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
            for_others = step.kind in ("masks", "calibrate", "quantize")
            if step.id in gone or step.kind == "trace" or (for_others and step.id not in needed):
                continue
            found.add(step.id)
            needed.update(step.needs)
        traces = {step.id for step in self.steps if step.kind == "trace"} - gone
        return found | {id for id in traces if found.issuperset(self.step(id).needs)}


_TOOLS = (
    "onnx", "onnx-ir", "onnxscript", "onnxsim", "onnxslim", "onnxruntime", "onnxruntime-gpu",
    "numpy",
)  # fmt: skip


def plan(
    request: Request,
    serves: Mapping[str, Sequence[str]],
    schemes: Mapping[str, Scheme | None] | None = None,
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
        Step("parse", "reading the model", params=_read(request), kept=True),
        Step("samples", "reading the samples", ("parse",), _take(request, "samples")),
    ]
    if request.check:  # first, since the framework's process may go then
        steps.append(
            Step(
                "reference",
                "running the source model",
                ("parse", "samples"),
                _take(request, "reference"),
                kept=True,
                alone=True,
            )
        )
    steps.append(_simplify(request))
    quantizing = _quantizing(request, pairs, schemes)
    steps += quantizing
    if request.check:
        changed = [step for step in quantizing if step.kind == "quantize"]
        traced = [_simplify(request), *changed] if changed or request.keep_steps else ()
        steps += [_trace(step) for step in traced]
    for target, precision in pairs:
        model = quantizing_of(precision, schemes.get(target))
        steps += _artifact_steps(request, target, precision, model)
    for server in request.serve:
        steps += _package_steps(request, server, serves[server], pairs, schemes)
    return Plan(tuple(steps), skipped)


def _take(request: Request, kind: str, options: Collection[str] = ()) -> dict[str, Any]:
    """What of a request is in a step's key: the options that say so where they are declared."""
    return {name: request.value(name) for name in affecting(kind, options)}


def _read(request: Request) -> dict[str, Any]:
    """What of a request the model that is read hangs on: with ``--prepare graph``, all that is
    declared of files and answers, and the targets."""
    known = _take(request, "parse")
    if request.prepare != "graph":
        return known
    images = (name for name in vars(request) if name.startswith("image_"))
    declared = ("to", "prepare", "preparation", "answer", "dims", *images)
    return {**known, **{name: request.value(name) for name in declared}}


def _simplify(request: Request) -> Step:
    skipped = {*request.skip_passes, *passes_left_out(request)}
    chosen = [name for name in simplify_passes() if name not in skipped]
    passes = [*IMPORT_PASSES, *(chosen if request.simplify else ())]
    return Step(
        "simplify",
        "simplifying" if request.simplify else "bringing it to one opset",
        ("parse", "samples"),
        {**_take(request, "simplify"), "passes": passes},
        _TOOLS,
        kept=True,
    )


def quantizing_of(precision: str, scheme: Scheme | None) -> str:
    """The id of the step that gives the model in a precision, laid out by a target's scheme."""
    return _quantize(precision, scheme).id if precision != "fp32" else SIMPLIFY


def _quantize(precision: str, scheme: Scheme | None) -> Step:
    """The step that brings the model to a precision, before it is known what it needs.

    int8-dynamic is int8 weights beside float activations where kernels take those; for all other
    targets, it is what ONNX Runtime runs.
    """
    own = precision == "int8" or (precision == "int8-dynamic" and scheme and scheme.hybrid)
    laid_out = scheme and (scheme.sixteen if precision == "int16x8" else scheme if own else None)
    name = laid_out.name if laid_out else ""
    return Step("quantize", f"bringing it to {precision}", precision=precision, scheme=name)


def _quantizing(
    request: Request, pairs: Collection[tuple[str, str]], schemes: Mapping[str, Scheme | None]
) -> list[Step]:
    """One calibration, then a step for each precision, and for each scheme of int8.

    Where ranges are measured, it is on the model with its masks clamped.
    """
    wanted = {
        step.id: step
        for precision in request.precision
        for target in request.to
        if precision != "fp32" and (target, precision) in pairs
        for step in (_quantize(precision, schemes.get(target)),)
    }
    plain, steps = (SIMPLIFY, "samples"), []
    if any(PRECISIONS[step.precision].is_measured for step in wanted.values()):
        asked = _take(request, "masks")
        steps.append(Step("masks", "clamping masks", plain, asked, _TOOLS, kept=True))
        steps.append(_calibrate(request))
    for step in wanted.values():
        precision = PRECISIONS[step.precision]
        needs = ("masks", "samples", "calibrate") if precision.is_measured else plain
        options = {"what": step.id, **_take(request, "quantize")}
        options["calibration"], otherwise = _calibrations(request, step)
        del options["samples"]  # what they hold is in the keys of what it needs
        if request.max_drop is None:
            del options["metric"]  # which judges nothing then
        options |= _runtimes(request, step, pairs, schemes)
        if precision.weights:  # what tables a weight may have
            options["grouped"] = has_grouped_tables(request)
            options["learns"] = has_own_samples(request)
        kept = not _is_judged_by_code(request)
        steps.append(
            replace(
                step, needs=needs, params=options, tools=_TOOLS, kept=kept, alone=True,
                otherwise=otherwise,
            )
        )  # fmt: skip
    return steps


def by_method(quantized: Step, method: str) -> Step:
    """A step that quantizes a model, with ranges taken by another method."""
    params = {**quantized.params, "calibration": method}
    title = f"{quantized.title} by {method}"
    return replace(quantized, params=params, title=title, method=method, otherwise="")


def _calibrations(request: Request, step: Step) -> tuple[str, str]:
    """The method of calibration of a step, and the one to try where what it gives misses a gate;
    none where the user named one, nothing is judged, or a budget says what to do then."""
    if request.calibration != AUTO:
        return request.calibration, ""
    searched = request.min_cosine is not None or request.max_drop is not None
    able = PRECISIONS[step.precision].is_calibrated and request.check and not searched
    return FIRST, SECOND if able else ""


def _runtimes(
    request: Request,
    step: Step,
    pairs: Collection[tuple[str, str]],
    schemes: Mapping[str, Scheme | None],
) -> dict[str, Any]:
    """The targets in whose own runtimes a cosine has to be kept, which others judge."""
    if not step.scheme or not request.check or request.min_cosine is None:
        return {}
    able = {name for name, scheme in schemes.items() if scheme and scheme.elsewhere}
    asked = [target for target, name in pairs if target in able and name == step.precision]
    found = [name for name in asked if quantizing_of(step.precision, schemes[name]) == step.id]
    return {"runtimes": found} if found else {}


def _is_judged_by_code(request: Request) -> bool:
    """Whether a metric of the user's, which may read what nobody knows of, decides what a lower
    precision may cost."""
    return request.max_drop is not None and any(":" in name for name in request.metric)


def _calibrate(request: Request) -> Step:
    options, needs = _take(request, "calibrate"), ("masks", "samples")
    title = "measuring value ranges"
    return Step("calibrate", title, needs, options, _TOOLS, kept=True, alone=True)


def _trace(changed: Step) -> Step:
    """Compares the model that a step gives with the one before it."""
    first = changed.id == SIMPLIFY
    return Step(
        "trace",
        f"following the error of {'simplifying' if first else changed.precision} along the graph",
        ("parse" if first else changed.id, SIMPLIFY, "samples"),
        {},
        _TOOLS,
        kept=True,
        alone=True,
        model=changed.id,
    )


def _artifact_steps(request: Request, target: str, precision: str, model: str) -> list[Step]:
    made = partial(Step, target=target, precision=precision, model=model)
    what = f"{target} {precision}"
    emitter = plugins.load("emitters", target)
    taken = partial(_take, request, options=emitter.options)
    needs = tuple(dict.fromkeys((SIMPLIFY, model)))
    emit = made("emit", f"writing {what}", needs, taken("emit"), light=emitter.lowers)
    steps = [emit]
    if request.check:
        compared = (emit.id, "reference", "samples")
        steps.append(made("check", f"checking {what}", compared, taken("check"), threaded=True))
    if measures(request):
        timed = (emit.id, "samples")
        steps.append(made("bench", f"measuring {what}", timed, taken("bench"), alone=True))
    if emitter.packs:
        needs = tuple(dict.fromkeys((emit.id, model, *_shipped(request, target, precision))))
        steps.append(made("pack", f"packing {what}", needs, taken("pack"), light=True))
    return steps


def measures(request: Request) -> bool:
    """Whether artifacts are measured: their latency, or their memory or time by operator alone."""
    return request.bench or request.profile or request.max_memory is not None


def _shipped(request: Request, target: str, precision: str) -> tuple[str, ...]:
    """What a package needs for the samples that go along."""
    if not request.check:
        return (SIMPLIFY, "samples")
    return (
        SIMPLIFY,
        "samples",
        "reference",
        Step("check", "", target=target, precision=precision).id,
    )


def _package_steps(
    request: Request,
    server: str,
    accepts: Sequence[str],
    pairs: Collection[tuple[str, str]],
    schemes: Mapping[str, Scheme | None],
) -> list[Step]:
    """Packages of each precision, of the target that the server takes best and that has it."""
    targets = [target for target in accepts if target in request.to]
    if not targets:
        raise UsageError(
            f"{server} can't serve {', '.join(request.to)}",
            code="server-cannot-serve",
            hint=f"It serves {', '.join(accepts)}: add one of them to --to.",
        )
    served = {
        name: next((target for target in targets if (target, name) in pairs), None)
        for name in request.precision
    }
    steps = []
    for precision, target in served.items():
        if target:
            model = quantizing_of(precision, schemes.get(target))
            emitted = Step("emit", "", target=target, precision=precision).id
            needs = tuple(dict.fromkeys((emitted, model, *_shipped(request, target, precision))))
            steps.append(
                Step(
                    "package",
                    f"packaging {target} {precision} for {server}",
                    needs,
                    _take(request, "package", plugins.load("servers", server).options),
                    server=server,
                    target=target,
                    precision=precision,
                    model=model,
                )
            )
    return steps


def require_known(request: Request) -> None:
    """Refuses what contradicts itself, or names what there isn't, whatever the targets are.

    Raises:
        UsageError: It says what.
    """
    unknown = [item for item in request.precision if item not in PRECISIONS]
    if unknown:
        raise UsageError(
            f"there is no precision {', '.join(unknown)}",
            code="unknown-name",
            hint=f"There are: {', '.join(PRECISIONS)}.",
        )
    unknown = [item for item in request.skip_passes if item not in pass_names()]
    if unknown:
        raise UsageError(
            f"there is no pass {', '.join(unknown)} to skip",
            code="unknown-name",
            hint=f"There are: {', '.join(pass_names())}.",
        )
    for name in ("search_evaluations", "search_seconds"):
        limit = request.value(name)
        if limit is not None and limit < 0:
            raise UsageError(
                f"{option_of(name).flags[0]} {limit:g}: the value has to be at least 0",
                code="option-value",
            )
    if request.min_cosine is not None and not -1 <= request.min_cosine <= 1:
        raise UsageError(
            f"--min-cosine {request.min_cosine!r}: a cosine is at most 1", code="option-value"
        )
    for name, size in request.dims.items():
        if size < 1:
            raise UsageError(f"--dim {name}={size}: a size is at least 1", code="option-value")
    _require_batch(request.batch)
    require_io_dtype(request)
    if request.palette_bits not in PALETTE_BITS:
        raise UsageError(
            f"--palette-bits {request.palette_bits}: the value has to be one of "
            f"{', '.join(map(str, PALETTE_BITS))}",
            code="option-value",
        )
    if request.max_latency is not None:
        _require_point(request)
    memory_limit(request)
    for name in ("repository", "deploy"):
        if request.value(name) and not request.serve:
            servers = ", ".join(plugins.available("servers"))
            raise UsageError(
                f"--{name} needs --serve", code="option-missing", hint=f"Add --serve: {servers}."
            )
    for name in ("to", "precision", "serve", "deploy"):
        values = request.value(name)
        if len(set(values)) != len(values):
            raise UsageError(
                f"--{name} names {', '.join(values)}, one of them twice", code="option-conflict"
            )


def require_calibration_samples(request: Request) -> None:
    """Refuses a precision that is calibrated where there is nothing to measure on.

    Raises:
        UsageError: int8 without samples.
    """
    lower = [name for name in request.precision if PRECISIONS[name].is_calibrated]
    if lower and not (request.samples or request.calibration_samples):
        raise UsageError(
            f"{lower[0]} needs samples to measure value ranges",
            code="samples-missing",
            hint="Give --samples or --calibration-samples. random:N measures the ranges on noise.",
        )


def require_io_dtype(request: Request) -> None:
    """Refuses a type of inputs and outputs that no precision asked for computes in.

    Raises:
        UsageError: ``--io-dtype float16`` without fp16, ``bfloat16`` without bf16, integers
            without int8.
    """
    asked = request.io_dtype
    able = [name for name, precision in PRECISIONS.items() if asked in precision.border]
    if able and not set(able).intersection(request.precision):
        wanted = able[0]
        raise UsageError(
            f"--io-dtype {asked} needs {wanted} artifacts, but --precision asks for "
            f"{', '.join(request.precision)}",
            code="option-not-applicable",
            hint=f"Add {wanted} to --precision. Artifacts of other precisions keep float32 inputs "
            "and outputs.",
        )


def _require_batch(batch: str | None) -> None:
    if batch in (None, "dynamic", "keep") or (batch.isdecimal() and int(batch) > 0):
        return
    raise UsageError(
        f"--batch {batch}: the value has to be dynamic, keep, or a number of at least 1",
        code="option-value",
    )


def _require_point(request: Request) -> None:
    """A latency gate is judged at batch 1 with one caller: that has to be measured."""
    if not request.bench:
        raise UsageError(
            "--max-latency needs the latency runs",
            code="option-conflict",
            hint="Leave --no-bench out.",
        )
    if 1 not in request.bench_batches or 1 not in request.bench_concurrency:
        raise UsageError(
            "--max-latency judges batch 1 with one caller",
            code="option-conflict",
            hint="Include 1 in --bench-batch and in --bench-concurrency.",
        )
