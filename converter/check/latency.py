"""Latency and throughput, of an artifact and of its source in the same run.

Each point (batch, callers) is measured so:

1. Warm-up, for each session: windows of runs, until the medians of two successive windows are
   within 5% of each other, or until a quarter of the point's time is spent, or 50 windows.
2. Rounds, at least three, each session in turn (A B A B ...), so that whatever else the machine
   does hits both. The time is shared out evenly among rounds and sessions.
3. Percentiles over the runs of all rounds (linear interpolation between order statistics,
   ``numpy.percentile``). A percentile is given only where at least one run is expected beyond
   it: p90 from 10 runs, p95 from 20, p99 from 100; else it is None, and a note says so.

Spread is told twice: between runs (interquartile range / median) and between rounds (largest
less smallest median of a round, over the median). The ratio to the source is that of the
medians, with the smallest and largest ratio of a round; where the warm-up ended unsettled, runs
are few, or rounds disagree, there is no ratio to tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from converter.check.sums import Array
from converter.errors import InternalError, UsageError
from converter.ir.model import TensorSpec
from converter.runtime.session import Footprint, Profile, Progress, Session
from converter.text import words

if TYPE_CHECKING:
    from converter.samples import Sample

MIN_ROUNDS = 3
MAX_ROUNDS = 9
STABLE_WITHIN = 0.05
UNSTEADY = 2.0
"""Largest ratio of a round over the smallest, from which on their ratio isn't worth a number."""

MIN_RUNS = 10
"""Runs, of each side, below which a ratio isn't worth a number."""

FEW_RUNS = 30
"""Runs below which a note says that the tail isn't known."""

_WARM_SHARE = 0.25
_WARM_WINDOWS = 50
_WINDOW_NS = 10_000_000
_MAX_RUNS = 20_000

Role = Literal["artifact", "source"]
Feeds = Mapping[str, Array]


@dataclass(frozen=True)
class LatencyPoint:
    """One session at one batch size and number of callers. Times in milliseconds a run.

    Attributes:
        role: The artifact, or the source framework.
        name: What ran: the runtime's name and version.
        batch: Samples in one run.
        concurrency: Callers at once.
        n: Runs measured, over all rounds and callers.
        rounds: How many rounds they were spread over.
        p25_ms ... p99_ms: Percentiles; p90, p95 and p99 are None where ``n`` is too small.
        iqr: Interquartile range / median.
        run_to_run: (largest - smallest median of a round) / median.
        throughput: Samples a second, all callers together.
        warmup_runs: Runs before measuring.
        warm: Whether the medians had settled by then.
        threads: Threads inside one run, as the runtime tells; None where it doesn't.
        notes: What to keep in mind when reading this.
    """

    role: Role
    name: str
    batch: int
    concurrency: int
    n: int
    rounds: int
    mean_ms: float
    min_ms: float
    p25_ms: float
    p50_ms: float
    p75_ms: float
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float
    iqr: float
    run_to_run: float
    throughput: float
    warmup_runs: int
    warm: bool
    threads: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether its median is worth comparing: enough runs, after the warm-up, in rounds that
        agree."""
        return self.warm and self.n >= MIN_RUNS and self.run_to_run < UNSTEADY - 1


@dataclass(frozen=True)
class LatencyRatio:
    """How much faster the artifact is than its source at one point.

    Attributes:
        speedup: Median of the source / median of the artifact.
        low, high: Smallest and largest ratio of the medians of one round.
        notes: What makes the two hard to compare; that the ratio isn't clear of 1.
        runs: The fewest runs of one side.
        warm: Whether both had settled when measuring began.
    """

    batch: int
    concurrency: int
    speedup: float
    low: float
    high: float
    notes: tuple[str, ...] = ()
    runs: int = MIN_RUNS
    warm: bool = True

    @property
    def doubt(self) -> str:
        """Why it isn't worth a number: ``unsteady``, ``too few runs``; empty where it is."""
        if self.runs < MIN_RUNS:
            return "too few runs"
        return "" if self.warm and self.high < UNSTEADY * self.low else "unsteady"


@dataclass(frozen=True)
class LatencyResult:
    """All points, and the ratio at each where the source was measured too; what else the artifact
    costs, where that was measured."""

    points: tuple[LatencyPoint, ...] = ()
    ratios: tuple[LatencyRatio, ...] = ()
    memory: Footprint | None = None
    profile: Profile | None = None

    @property
    def artifact(self) -> tuple[LatencyPoint, ...]:
        """The artifact's own points."""
        return tuple(point for point in self.points if point.role == "artifact")


@dataclass
class _Run:
    """What is known of one session at one point."""

    role: Role
    session: Session
    feeds: Feeds
    batch: int
    concurrency: int
    warmup_runs: int = 0
    warm: bool = False
    run_ns: float = 0.0
    rounds: list[Array] = field(default_factory=list)
    total_ns: int = 0

    def medians(self) -> Array:
        return np.array([np.median(ns) for ns in self.rounds])


def batch_feeds(
    samples: Iterable[Sample], inputs: Sequence[TensorSpec], batches: Sequence[int]
) -> dict[int, dict[str, Array]]:
    """Feeds for each batch size, of the samples' own values, joined along the first dimension.

    Args:
        samples: Each with a batch of 1; where there are too few, they repeat.
        inputs: The model's: only those with the symbolic batch dimension are joined.
        batches: The sizes wanted.

    Returns:
        By batch size, arrays by input name. A model without a batch dimension takes its samples
        as they are: for it, only size 1 is given.

    Raises:
        UsageError: There are no samples, or samples of different shapes can't be joined.
    """
    first: list[Sample] = []
    for sample in samples:
        first.append(sample)
        if len(first) >= max(batches):
            break
    if not first:
        raise UsageError("there are no samples to measure latency with", code="samples-missing")
    joined = [spec.name for spec in inputs if spec.has_batch]
    feeds = {}
    for batch in batches:
        if batch == 1 or not joined:
            feeds[1] = dict(first[0].feeds)
            continue
        chosen = [first[i % len(first)] for i in range(batch)]
        feeds[batch] = {
            name: _join(name, [s.feeds[name] for s in chosen]) if name in joined else array
            for name, array in first[0].feeds.items()
        }
    return feeds


def measure(
    session: Session,
    feeds_by_batch: Mapping[int, Feeds],
    concurrency: Sequence[int] = (1,),
    seconds: float = 3.0,
    *,
    source: Session | None = None,
    progress: Progress | None = None,
) -> LatencyResult:
    """Measures ``session``, and ``source`` in turns with it, at every batch size and concurrency.

    Args:
        session: The artifact, opened with the threads and providers to measure.
        feeds_by_batch: Arrays by input name for each batch size, as of :func:`batch_feeds`.
        concurrency: Numbers of callers at once.
        seconds: Longest time for one point, warm-up included. At least three runs of each
            session are made, however long they take.
        source: The source framework.
        progress: Called at each point.
    """
    points: list[LatencyPoint] = []
    ratios: list[LatencyRatio] = []
    for batch, feeds in feeds_by_batch.items():
        for callers in concurrency:
            if progress:
                progress(f"measuring batch {batch}, {callers} caller{'s' * (callers > 1)}")
            runs = [_Run("artifact", session, feeds, batch, callers)]
            if source is not None:
                runs.append(_Run("source", source, feeds, batch, callers))
            _measure_point(runs, seconds)
            points += [_point(run) for run in runs]
            if source is not None:
                ratios.append(_ratio(*runs))
    return LatencyResult(tuple(points), tuple(ratios))


def _measure_point(runs: Sequence[_Run], seconds: float) -> None:
    budget = seconds * 1e9 / len(runs)
    for run in runs:
        _warm_up(run, budget * _WARM_SHARE)
    share = budget * (1 - _WARM_SHARE)
    slowest = max(run.run_ns for run in runs)
    rounds = int(min(MAX_ROUNDS, max(MIN_ROUNDS, share // max(10 * slowest, 1))))
    for _ in range(rounds):
        for run in runs:
            count = int(min(_MAX_RUNS, max(1, share / rounds // max(run.run_ns, 1))))
            timing = run.session.time(run.feeds, count, run.concurrency)
            run.rounds.append(np.array(timing.ns, dtype=np.float64))
            run.total_ns += timing.total_ns
            run.run_ns = timing.total_ns / count  # a machine that got busy gets fewer runs


def _warm_up(run: _Run, budget_ns: float) -> None:
    """Runs until it is warm; leaves the wall time of a run in ``run.run_ns``."""
    spent, before, count = 0.0, math.inf, 1
    for _ in range(_WARM_WINDOWS):
        timing = run.session.time(run.feeds, count, run.concurrency)
        if not timing.ns:
            raise InternalError("a session measured no runs")
        spent += timing.total_ns
        run.warmup_runs += len(timing.ns)
        run.run_ns = timing.total_ns / count
        median = float(np.median(timing.ns))
        if count >= 3 and abs(median - before) <= STABLE_WITHIN * before:
            run.warm = True
            return
        if spent >= budget_ns:
            return
        before = median
        count = int(max(3, min(_MAX_RUNS, _WINDOW_NS // max(run.run_ns, 1))))


def _point(run: _Run) -> LatencyPoint:
    ms = np.concatenate(run.rounds) / 1e6
    runtime = run.session.runtime
    quarter, median, three = (float(q) for q in np.percentile(ms, [25, 50, 75]))
    medians = run.medians() / 1e6
    return LatencyPoint(
        role=run.role,
        name=words.runtime(runtime),
        batch=run.batch,
        concurrency=run.concurrency,
        n=ms.size,
        rounds=len(run.rounds),
        mean_ms=float(ms.mean()),
        min_ms=float(ms.min()),
        p25_ms=quarter,
        p50_ms=median,
        p75_ms=three,
        p90_ms=_tail(ms, 90),
        p95_ms=_tail(ms, 95),
        p99_ms=_tail(ms, 99),
        max_ms=float(ms.max()),
        iqr=(three - quarter) / median if median else 0.0,
        run_to_run=float(np.ptp(medians)) / median if median else 0.0,
        throughput=run.batch * ms.size / (run.total_ns / 1e9) if run.total_ns else 0.0,
        warmup_runs=run.warmup_runs,
        warm=run.warm,
        threads=_threads(runtime),
        notes=_notes(run, ms.size),
    )


def _tail(ms: Array, percent: int) -> float | None:
    """A percentile, where at least one run is expected beyond it."""
    enough = ms.size * (100 - percent) >= 100
    return float(np.percentile(ms, percent)) if enough else None


def _notes(run: _Run, n: int) -> tuple[str, ...]:
    notes = []
    if n < FEW_RUNS:
        notes.append(f"only {n} runs: the tail is not known")
    elif n < 100:
        notes.append(f"{n} runs are too few for a p99")
    elif n < 1000:
        notes.append(f"p99 rests on {n // 100} run{'s' * (n >= 200)}")
    if not run.warm:
        notes.append("still settling when measuring began")
    if times := run.session.runtime.get("times"):  # a GPU's are not the wall time of a call
        notes.append(str(times))
    return tuple(notes)


def _ratio(artifact: _Run, source: _Run) -> LatencyRatio:
    ours, theirs = (np.median(np.concatenate(run.rounds)) for run in (artifact, source))
    by_round = source.medians() / np.maximum(artifact.medians(), 1)
    low, high = float(by_round.min()), float(by_round.max())
    notes = []
    if high >= UNSTEADY * low:
        notes.append(f"rounds range from {low:.2g} to {high:.2g}: something else was running")
    if low <= 1 <= high:
        notes.append("not clear of 1: rounds disagree on which is faster")
    threads = [_threads(run.session.runtime) for run in (artifact, source)]
    if None not in threads and threads[0] != threads[1]:
        notes.append(f"{threads[0]} threads against {threads[1]} of the source")
    runs = min(sum(ns.size for ns in run.rounds) for run in (artifact, source))
    if runs < MIN_RUNS:
        notes.append(f"{runs} runs are too few for a ratio: raise --bench-seconds")
    return LatencyRatio(
        artifact.batch,
        artifact.concurrency,
        float(theirs / max(ours, 1.0)),
        low,
        high,
        tuple(notes),
        runs,
        artifact.warm and source.warm,
    )


def _threads(runtime: Mapping[str, Any]) -> int | None:
    threads = runtime.get("threads")
    return threads if isinstance(threads, int) else None


def _join(name: str, arrays: Sequence[Array]) -> Array:
    try:
        return np.concatenate(arrays, axis=0)
    except ValueError as error:
        shapes = sorted({str(list(array.shape)) for array in arrays})
        raise UsageError(
            f"samples of the input {name} can't be batched: their shapes differ",
            code="samples-mismatch",
            details=shapes,
            hint="Measure batch 1 only, or give samples of one shape.",
        ) from error
