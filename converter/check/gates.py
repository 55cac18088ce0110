"""Gates: what an artifact has to keep to, judged on every output; the worst value decides.

| gate | asks that |
|---|---|
| interface | every output is there, with its dtype (or the one asked for) and shape, and no other |
| non-finite | no NaN or Inf where the source has none, nor another kind than the source's |
| cosine | every float output: the smaller of the worst sample's and of all together >= limit |
| scale | every float output: its size is the source's, which cosine doesn't see |
| agreement | every integer, bool or string output: share of equal values >= cosine's limit |
| max-abs-error | every float output, where a limit was given |
| drop | every task metric: points below the source's |
| latency | p95 at batch 1 and one caller, where a limit was given |

The scale gate takes ``|sqrt(sum(c^2) / sum(r^2)) - 1| <= sqrt(2 - 2 cosine)``: two vectors of
equal size that just pass the cosine gate are as far apart, so a wrong factor may cost no more
than a wrong direction.

Cosine and scale leave out samples whose largest error is within rounding of the output's known
range (:mod:`converter.graph.value_ranges`); ``why`` counts them.

A gate that can't be judged is not passed: its status is ``not judged``, and ``why`` says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from converter.check.accuracy import AccuracyResult
from converter.check.comparison import Comparison, OutputResult
from converter.check.feeding import NARROW
from converter.check.latency import LatencyPoint
from converter.check.task_metrics import MetricResult
from converter.errors import GateError
from converter.plan import io_dtype_of
from converter.report import words
from converter.request import Request

MIN_COSINE = {"fp32": 0.9999, "fp16": 0.999, "bf16": 0.999}
"""The default limit by precision; :data:`MIN_COSINE_QUANTIZED` for all others."""

MIN_COSINE_QUANTIZED = 0.99
MAX_DROP = 1.0
"""Percentage points that a metric may drop where no limit was given."""

Status = Literal["passed", "failed", "not judged"]


@dataclass(frozen=True)
class GateResult:
    """One gate, judged.

    Attributes:
        name: ``cosine``, ``drop top1``...
        limit: What was allowed; None where the gate has no number.
        value: The worst that was found; None where there is none.
        status: ``passed``, ``failed`` or ``not judged``.
        why: What decided, in words: which output or metric, and where.
        unit: Of limit and value: ``points``, ``ms`` or nothing.
        measured: Whether it was judged on times, which differ from run to run.
    """

    name: str
    limit: float | None
    value: float | None
    status: Status
    why: str
    unit: str = ""
    measured: bool = False

    @property
    def passed(self) -> bool:
        """Whether it was judged and kept to."""
        return self.status == "passed"


@dataclass(frozen=True)
class Limits:
    """What is allowed.

    Attributes:
        cosine: Smallest cosine.
        max_abs: Largest absolute error; None for no gate.
        max_drop: Points; None for :data:`MAX_DROP` on metrics in percent, and no judgement of
            others: how much of another unit matters, only the user knows.
        latency_ms: Largest p95; None for no gate.
        io_dtype: The type that the source's float32 outputs were asked to have (``--io-dtype``).
    """

    cosine: float
    max_abs: float | None = None
    max_drop: float | None = None
    latency_ms: float | None = None
    io_dtype: str = "float32"

    @classmethod
    def of(cls, request: Request, precision: str, arithmetic: str = "") -> Limits:
        """The request's limits for an artifact of ``precision``.

        Args:
            request: What the user asked for.
            precision: The artifact's.
            arithmetic: ``int8`` where the source itself computes in integers: two runtimes
                round them differently, so no artifact of it can be closer than int8's limit.
        """
        cosine = request.min_cosine
        if cosine is None:
            cosine = MIN_COSINE.get(precision, MIN_COSINE_QUANTIZED)
            if arithmetic == "int8":
                cosine = min(cosine, MIN_COSINE_QUANTIZED)
        io_dtype = io_dtype_of(request, precision)
        if io_dtype not in NARROW:  # integers are compared as the real numbers they stand for
            io_dtype = "float32"
        return cls(cosine, request.max_abs_error, request.max_drop, request.max_latency, io_dtype)

    def elsewhere(self) -> Limits:
        """The same on other kernels, whose latency isn't measured."""
        return replace(self, latency_ms=None)

    @property
    def scale(self) -> float:
        """By how much the norm ratio may differ from 1."""
        return math.sqrt(max(0.0, 2 - 2 * self.cosine))


def judge(
    limits: Limits,
    accuracy: AccuracyResult | None,
    latency: Sequence[LatencyPoint] = (),
    *,
    unchecked: str = "accuracy was not checked (--no-check)",
    metrics_asked: Sequence[str] = (),
) -> list[GateResult]:
    """Judges every gate that applies.

    Args:
        limits: What is allowed.
        accuracy: The artifact against its source; None where it was not checked.
        latency: The artifact's own points (not the source's).
        unchecked: Why accuracy is None.
        metrics_asked: Metrics that the user named: one without a result is not judged.
    """
    gates: list[GateResult] = []
    if accuracy is None:
        gates += [_unjudged(name, unchecked) for name in ("interface", "non-finite", "cosine")]
    elif not accuracy.comparison.samples:
        gates += [_unjudged(name, "there were no samples") for name in ("interface", "cosine")]
    else:
        gates += _judge_outputs(limits, accuracy.comparison)
    metrics = accuracy.metrics if accuracy else ()
    gates += [_judge_drop(limits, metric) for metric in metrics]
    asked = [PurePath(name).name for name in metrics_asked]  # as results name them
    missing = [name for name in asked if name not in {metric.name for metric in metrics}]
    reason = unchecked if accuracy is None else "the samples have no labels"
    gates += [_unjudged(f"drop {name}", reason) for name in missing]
    if limits.latency_ms is not None:
        gates.append(_judge_latency(limits.latency_ms, latency))
    return gates


def require(gates: Iterable[GateResult], what: str) -> None:
    """Raises GateError listing every failed gate of ``what`` (an artifact's name)."""
    failed = [gate for gate in gates if gate.status == "failed"]
    if failed:
        raise GateError(
            f"{what} missed {len(failed)} gate{'s' * (len(failed) > 1)}",
            details=[f"{gate.name}: {_found(gate)}{gate.why}" for gate in failed],
        )


def _found(gate: GateResult) -> str:
    """``0.993320, limit 0.9999; `` where the gate has numbers."""
    if gate.limit is None or gate.value is None:
        return ""
    words_of = words.cosine if gate.name.startswith("cosine") else words.number
    return f"{words_of(gate.value)}, limit {gate.limit:.4g}{' ' * bool(gate.unit)}{gate.unit}; "


def _judge_outputs(limits: Limits, comparison: Comparison) -> list[GateResult]:
    gates = [_judge_interface(comparison, limits.io_dtype), _judge_finite(comparison)]
    floats = comparison.floats
    exact = [output for output in comparison.outputs if output.kind == "exact"]
    if floats:
        gates += [_judge_cosine(limits.cosine, floats), _judge_scale(limits.scale, floats)]
    if exact:
        gates.append(_judge_agreement(limits.cosine, exact))
    if not floats and not exact:
        gates.append(_failed("cosine", limits.cosine, None, "no output could be compared"))
    if limits.max_abs is not None:
        gates.append(_judge_max_abs(limits.max_abs, floats))
    return gates


def _judge_interface(comparison: Comparison, io_dtype: str) -> GateResult:
    wrong = [f"{name} is missing" for name in comparison.missing]
    wrong += [f"{name} is not in the source" for name in comparison.unexpected]
    for output in comparison.outputs:
        found, source = output.candidate_type, output.reference_type
        if found != (io_dtype if source == "float32" else source):
            asked = f"; --io-dtype {io_dtype} was asked for" if io_dtype != "float32" else ""
            if source == "float32" and found in NARROW and not asked:
                asked = f" (if it was made with --io-dtype {found}, say so here too)"
            wrong.append(f"{output.name} is {found}, the source's is {source}{asked}")
        if output.shape_problem:
            wrong.append(f"{output.name} has another shape on {output.shape_problem}")
    if wrong:
        return _failed("interface", None, None, "; ".join(wrong))
    count = len(comparison.outputs)
    why = f"names, dtypes and shapes of {count} output{'s' * (count != 1)} are the source's"
    if any(output.candidate_type != output.reference_type for output in comparison.outputs):
        why += f", but for {io_dtype} where the source has float32, as asked for"
    return _passed("interface", None, None, why)


def _judge_finite(comparison: Comparison) -> GateResult:
    counts = {output.name: output.introduced + output.altered for output in comparison.outputs}
    total = sum(counts.values())
    if total:
        bad = ", ".join(f"{name}: {count}" for name, count in counts.items() if count)
        why = f"NaN or Inf where the source has none ({bad})"
        return _failed("non-finite", 0, total, why)
    vanished = sum(output.vanished for output in comparison.outputs)
    why = "no NaN or Inf where the source has none"
    if vanished:
        why += f"; {vanished} of the source's are finite here"
    return _passed("non-finite", 0, 0, why)


def _judge_cosine(limit: float, outputs: Sequence[OutputResult]) -> GateResult:
    unknown = [output for output in outputs if output.cosine is None]
    if unknown:
        why = f"{unknown[0].name} could not be compared: its shape differs"
        return _failed("cosine", limit, None, why)
    worst = min(outputs, key=lambda output: output.cosine or 0.0)
    value = worst.cosine or 0.0
    if worst.cosine_judged == value and worst.worst_samples:
        where = f"{worst.name} on {worst.worst_samples[0].sample}"
    else:
        where = f"{worst.name}, all samples together"
    alike = sum(output.within_rounding for output in outputs)
    if alike:
        where += f"; {alike} times the difference is rounding of the output's range"
    return _judged("cosine", limit, value, value >= limit, where)


def _judge_scale(limit: float, outputs: Sequence[OutputResult]) -> GateResult:
    known = [
        (abs(o.norm_ratio - 1), o)
        for o in outputs
        if o.norm_ratio is not None and o.within_rounding < o.samples
    ]
    if not known and all(output.samples == output.within_rounding for output in outputs):
        return _passed("scale", limit, 0.0, "differences are rounding of the outputs' ranges")
    if not known:
        why = "the source's outputs are all zero, or could not be compared"
        return _unjudged("scale", why, limit)
    value, worst = max(known, key=lambda pair: pair[0])
    why = f"{worst.name}: its norm is {worst.norm_ratio:.4f} times the source's"
    return _judged("scale", limit, value, value <= limit, why)


def _judge_agreement(limit: float, outputs: Sequence[OutputResult]) -> GateResult:
    if not all(output.samples for output in outputs):
        return _failed("agreement", limit, None, "an output could not be compared")
    worst = min(outputs, key=lambda output: output.equal)
    why = f"{worst.name}: {worst.equal:.4%} of {worst.values} values are the same"
    if worst.first:
        why += f"; first different on {worst.first.sample}"
    return _judged("agreement", limit, worst.equal, worst.equal >= limit, why)


def _judge_max_abs(limit: float, outputs: Sequence[OutputResult]) -> GateResult:
    known = [output for output in outputs if output.max_abs is not None]
    if not known:
        return _unjudged("max-abs-error", "no float output has finite values to compare", limit)
    worst = max(known, key=lambda output: output.max_abs or 0.0)
    value = worst.max_abs or 0.0
    where = f"{worst.name} on {worst.worst.sample}" if worst.worst else worst.name
    return _judged("max-abs-error", limit, value, value <= limit, where)


def _judge_drop(limits: Limits, metric: MetricResult) -> GateResult:
    percent = metric.unit == "%"
    name = f"drop {metric.name}"
    unit = "points" if percent else metric.unit
    why = (
        f"{metric.source:.6g}{metric.unit} in the source, {metric.candidate:.6g}{metric.unit} here,"
        f" over {metric.samples} sample{'s' * (metric.samples != 1)}"
    )
    if limits.max_drop is None and not percent:
        return _unjudged(name, why + "; give --max-drop, in the metric's own unit", None, unit)
    limit = MAX_DROP if limits.max_drop is None else limits.max_drop
    kept = metric.drop <= limit + 1e-9  # 98.0 - 97.0 of shares of 1 isn't exactly one point
    return _judged(name, limit, metric.drop, kept, why, unit)


def _judge_latency(limit: float, points: Sequence[LatencyPoint]) -> GateResult:
    name = "latency p95"
    single = [point for point in points if point.batch == 1 and point.concurrency == 1]
    if not single:
        why = "latency was not measured at batch 1 with one caller"
        return GateResult(name, limit, None, "not judged", why, "ms", True)
    point = single[0]
    if point.p95_ms is None:
        why = f"{point.n} runs are too few for a p95; raise --bench-seconds"
        return GateResult(name, limit, None, "not judged", why, "ms", True)
    status: Status = "passed" if point.p95_ms <= limit else "failed"
    why = f"batch 1, one caller, {point.n} runs"
    return GateResult(name, limit, point.p95_ms, status, why, "ms", True)


def _judged(
    name: str, limit: float, value: float, kept: bool, why: str, unit: str = ""
) -> GateResult:
    return GateResult(name, limit, value, "passed" if kept else "failed", why, unit)


def _passed(name: str, limit: float | None, value: float | None, why: str) -> GateResult:
    return GateResult(name, limit, value, "passed", why)


def _failed(name: str, limit: float | None, value: float | None, why: str) -> GateResult:
    return GateResult(name, limit, value, "failed", why)


def _unjudged(name: str, why: str, limit: float | None = None, unit: str = "") -> GateResult:
    return GateResult(name, limit, None, "not judged", why, unit)
