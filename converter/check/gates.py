"""Gates: what an artifact has to keep to, judged on every output; the worst value decides.

| gate | asks that |
|---|---|
| interface | every output is there, with its dtype (or the one asked for) and shape, and no other |
| non-finite | no NaN or Inf where the source has none, nor another kind than the source's |
| cosine | every float output: the smaller of the worst sample's and of all together >= limit |
| scale | every float output: its size is the source's, which cosine doesn't see |
| variation | every float output: its squared error as a share of its variance <= limit |
| channel | the same of each of its channels |
| agreement | every integer, bool or string output: the same in float32, and where no float leads to
it; else share of equal values >= cosine's limit, and none far out of the source's range |
| probes | the same on other inputs (:mod:`converter.check.probes`) |
| max-abs-error | every float output, where a limit was given |
| drop | every task metric: points below the source's |
| judged | what the samples say nothing of: an output that is zero, or the same, on all of them |
| latency | p95 at batch 1 and one caller, where a limit was given |

Variation and channel see what large values hide from a cosine
(:mod:`converter.check.variation`). A smaller ``--min-cosine`` than the precision's own widens them
to what it allows, ``2 - 2 cosine`` and ten times that; from 1 on they are no gates, since zeros in
an output's place come to that.

The scale gate takes ``|sqrt(sum(c^2) / sum(r^2)) - 1| <= sqrt(2 - 2 cosine)``: two vectors of
equal size that just pass the cosine gate are as far apart, so a wrong factor may cost no more
than a wrong direction.

Cosine and scale leave out samples whose largest error is within rounding of the output's known
range (:mod:`converter.ir.value_ranges`); ``why`` counts them.

Rows of lists of found things may stand elsewhere among rows of equal scores
(:mod:`converter.check.matching`); ``why`` counts those too.

Variation and channel of float32 leave out the source's own rounding, where that alone would miss
them (:mod:`converter.check.unsteady`); ``why`` gives the value with it.

An output that can't tell a right artifact from a wrong one (:mod:`converter.check.informative`) is
judged on other inputs (:mod:`converter.check.probing`). Where none of them tells either, the
artifact isn't judged. What depends on no input of the source is judged by its value. Where every
float output of the source is NaN or Inf on every sample, the cosine gate is missed.

A gate that can't be judged is not passed: its status is ``not judged``, and ``why`` says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from converter.check.accuracy import AccuracyResult
from converter.check.comparison import OutputResult
from converter.check.feeding import NARROW
from converter.check.gate_result import (
    JUDGED,
    LOWERED,
    GateResult,
    Status,
    flagged,
    judged,
    numbers,
    require,
    told,
    unjudged,
)
from converter.check.latency import LatencyPoint
from converter.check.metric import MetricResult
from converter.check.output_gates import judge_outputs, judge_values
from converter.check.variation import GRAINS, Grain
from converter.options.request import Request
from converter.options.resolved import io_dtype_of, memory_limit
from converter.runtime.session import Footprint
from converter.text import words

__all__ = [
    "JUDGED", "LOWERED", "GateResult", "Limits", "flagged", "judge", "numbers", "require", "told",
]  # fmt: skip

MIN_COSINE = {"fp32": 0.9999, "fp16": 0.999, "bf16": 0.999}
"""The default limit by precision; :data:`MIN_COSINE_QUANTIZED` for all others."""

MIN_COSINE_QUANTIZED = 0.99
VARIATION = {"fp32": (1e-6, 5e-6), "fp16": (2e-3, 0.03), "bf16": (0.05, 0.5)}
"""Most of an output's and of a channel's variance that squared errors may take, by precision; see
docs/precision.md for what good and wrong artifacts take."""

VARIATION_QUANTIZED = (0.5, 0.7)
STEPS = {"fp32": 2.0**-20, "fp16": 2.0**-11}
"""Share of an output's known range that may be lost of each value; others' is :data:`STEP`."""

STEP = 2.0**-8
Drop = float | Mapping[str, float] | None
"""Points that metrics may drop: each, or by their names, the others under the empty one."""

MEMORY = "memory peak"
MEGABYTE = 1_000_000
MAX_DROP = 1.0
"""Percentage points that a metric may drop where no limit was given."""


@dataclass(frozen=True)
class Limits:
    """What is allowed.

    Attributes:
        cosine: Smallest cosine.
        max_abs: Largest absolute error; None for no gate.
        max_drop: Points, of all metrics or by their names; else :data:`MAX_DROP` on metrics in
            percent, and no judgement of others: how much of another unit matters, only the user
            knows.
        latency_ms: Largest p95; None for no gate.
        memory: Most bytes that running it adds to a process; None for no gate.
        io_dtype: The type that the source's float32 outputs were asked to have (``--io-dtype``).
        variation, channel: Most of the variance of an output, and of its channels, that squared
            errors may take; None for no gate.
        grain: How finely those are looked at.
        step: Share of a known range that they don't count.
        exact: Whether it has to be kept to on any inputs, and not only on what the samples hold.
        strict: Whether an output that couldn't be judged is a missed gate (``--strict``).
    """

    cosine: float
    max_abs: float | None = None
    max_drop: Drop = None
    latency_ms: float | None = None
    memory: int | None = None
    io_dtype: str = "float32"
    variation: float | None = None
    channel: float | None = None
    grain: Grain = GRAINS["fp32"]
    step: float = STEPS["fp32"]
    exact: bool = True
    strict: bool = False

    @classmethod
    def of(cls, request: Request, precision: str, arithmetic: str = "") -> Limits:
        """The request's limits for an artifact of ``precision``.

        Args:
            request: What the user asked for.
            precision: The artifact's.
            arithmetic: ``int8`` where the source itself computes in integers: two runtimes
                round them differently, so no artifact of it can be closer than int8's limit.
                ``pixels`` where pictures are resized to 8-bit pixels: two implementations round
                some of these to the other side, so none can be closer than fp16's limit.
        """
        judged_as = "int8" if arithmetic == "int8" else precision
        if arithmetic == "pixels" and precision == "fp32":
            judged_as = "fp16"
        io_dtype = io_dtype_of(request, precision)
        if io_dtype not in NARROW:  # integers are compared as the real numbers they stand for
            io_dtype = "float32"
        return replace(
            cls.by_precision(judged_as, request.min_cosine),
            max_abs=request.max_abs_error,
            max_drop=request.max_drop,
            latency_ms=request.max_latency,
            memory=memory_limit(request),
            io_dtype=io_dtype,
            strict=request.strict,
        )

    @classmethod
    def by_precision(cls, precision: str, cosine: float | None = None) -> Limits:
        """The limits of a precision; ``cosine`` is what was asked for instead of its own."""
        own = MIN_COSINE.get(precision, MIN_COSINE_QUANTIZED)
        asked = own if cosine is None else cosine
        variation, channel = VARIATION.get(precision, VARIATION_QUANTIZED)
        if asked < own:  # vectors about their mean at that cosine are so far apart
            variation, channel = max(variation, 2 * (1 - asked)), max(channel, 20 * (1 - asked))
        return cls(
            asked,
            variation=variation if variation < 1 else None,
            channel=channel if channel < 1 else None,
            grain=GRAINS.get(precision, GRAINS["int8"]),
            step=STEPS.get(precision, STEP),
            exact=precision == "fp32",
        )

    def at_other_sizes(self) -> Limits:
        """The limits of sizes that no sample has. A lower precision is fitted to its samples: there
        it may err twice as much, and so by four times the square."""
        if self.exact:
            return self
        return replace(
            self,
            cosine=1 - 4 * (1 - self.cosine),
            variation=self.variation and 4 * self.variation,
            channel=self.channel and 4 * self.channel,
        )

    def elsewhere(self) -> Limits:
        """The same on other kernels, whose latency and memory aren't measured."""
        return replace(self, latency_ms=None, memory=None)

    @property
    def scale(self) -> float:
        """By how much the norm ratio may differ from 1, in four digits."""
        return float(f"{math.sqrt(max(0.0, 2 - 2 * self.cosine)):.4g}")

    def kept_by(self, output: OutputResult) -> bool:
        """Whether one output keeps to them."""
        return all(gate.status != "failed" for gate in judge_values(self, [output]))


def judge(
    limits: Limits,
    accuracy: AccuracyResult | None,
    latency: Sequence[LatencyPoint] = (),
    *,
    unchecked: str = "accuracy was not checked (--no-check)",
    metrics_asked: Sequence[str] = (),
    memory: Footprint | None = None,
) -> list[GateResult]:
    """Judges every gate that applies.

    Args:
        limits: What is allowed.
        accuracy: The artifact against its source; None where it was not checked.
        latency: The artifact's own points (not the source's).
        unchecked: Why accuracy is None.
        metrics_asked: Metrics that the user named: one without a result is not judged.
        memory: What it took; None where that was not measured.
    """
    gates: list[GateResult] = []
    if accuracy is None:
        gates += [unjudged(name, unchecked) for name in ("interface", "non-finite", "cosine")]
    elif not accuracy.comparison.samples:
        gates += [unjudged(name, "there were no samples") for name in ("interface", "cosine")]
    else:
        gates += judge_outputs(limits, accuracy)
    metrics = accuracy.metrics if accuracy else ()
    gates += [_judge_drop(limits, metric) for metric in metrics]
    asked = [PurePath(name).name for name in metrics_asked]  # as results name them
    missing = [name for name in asked if name not in {metric.name for metric in metrics}]
    reason = unchecked if accuracy is None else "the samples have no labels"
    gates += [unjudged(f"drop {name}", reason) for name in missing]
    if limits.latency_ms is not None:
        gates.append(_judge_latency(limits.latency_ms, latency))
    if limits.memory is not None:
        gates.append(_judge_memory(limits.memory, memory))
    return gates


def limit_on(asked: Drop, metric: MetricResult) -> float | None:
    """Points that a metric may drop; None where nothing says it."""
    limits = asked if isinstance(asked, Mapping) else {"": asked}
    found = limits.get(metric.name, limits.get(""))
    return MAX_DROP if found is None and metric.unit == "%" else found


def _judge_drop(limits: Limits, metric: MetricResult) -> GateResult:
    percent = metric.unit == "%"
    name = f"drop {metric.name}"
    unit = "points" if percent else metric.unit
    why = (
        f"{words.number(metric.source)}{metric.unit} in the source, "
        f"{words.number(metric.candidate)}{metric.unit} here,"
        f" over {metric.samples} sample{'s' * (metric.samples != 1)}"
    )
    limit = limit_on(limits.max_drop, metric)
    if limit is None:
        return unjudged(name, why + "; give --max-drop, in the metric's own unit", None, unit)
    kept = metric.drop <= limit + 1e-9  # 98.0 - 97.0 of shares of 1 isn't exactly one point
    return judged(name, limit, metric.drop, kept, why, unit)


def _judge_memory(limit: int, memory: Footprint | None) -> GateResult:
    allowed = limit / MEGABYTE
    peak = memory.peak if memory is not None else None
    if memory is None or peak is None or memory.base is None:
        why = (memory.why if memory is not None else "") or "memory was not measured"
        return GateResult(MEMORY, allowed, None, "not judged", why, "MB", True)
    most = max(memory.phases[1:], key=lambda phase: phase.peak)
    status: Status = "passed" if peak <= limit else "failed"
    why = (
        f"resident in phase {most.name}, above the {words.size(memory.base)} of its runtime by "
        "itself"
    )
    return GateResult(MEMORY, allowed, peak / MEGABYTE, status, why, "MB", True)


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
