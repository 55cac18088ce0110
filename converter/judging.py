"""Judges an artifact against the model it came from: check() and bench()."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.opened import opened, told
from converter.run import Listener

if TYPE_CHECKING:
    from converter.check.accuracy import AccuracyResult
    from converter.check.gates import GateResult
    from converter.check.latency import LatencyResult
    from converter.samples import Samples


@dataclass(frozen=True)
class Checked:
    """How an artifact compares with the model it came from."""

    based_on: str
    accuracy: AccuracyResult
    gates: Sequence[GateResult]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "based_on": self.based_on,
            "accuracy": asdict(self.accuracy),
            "gates": [asdict(gate) for gate in self.gates],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """A line for each output."""
        return [
            (
                output.name,
                _number(output.cosine, ".8f"),
                _number(output.max_abs, ".3g"),
                _number(output.sqnr_db, ".1f") + " dB",
                str(output.introduced + output.altered),
            )
            for output in self.accuracy.comparison.outputs
        ]

    def gate_rows(self) -> list[tuple[str, ...]]:
        """A line for each gate."""
        return [
            (gate.name, _number(gate.limit, "g"), _number(gate.value, ".6g"), gate.status)
            for gate in self.gates
        ]


@dataclass(frozen=True)
class Benchmark:
    """Latencies of an artifact, and of what it was measured against."""

    latency: LatencyResult
    machine: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"latency": asdict(self.latency), "machine": dict(self.machine)}

    def rows(self) -> list[tuple[str, ...]]:
        """A line for each point."""
        from converter.report import words

        ratios = {(item.batch, item.concurrency): item for item in self.latency.ratios}
        return [
            (
                point.name,
                str(point.batch),
                str(point.concurrency),
                words.number(point.p50_ms),
                words.number(point.p95_ms),
                words.number(point.p99_ms),
                words.number(point.throughput),
                _ratio(ratios.get((point.batch, point.concurrency)), point.role),
            )
            for point in self.latency.points
        ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _ratio(ratio: Any, role: str) -> str:
    if ratio is None or role != "artifact":
        return ""
    return f"x{ratio.speedup:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def check(
    artifact: str, source: str, *, listener: Listener | None = None, **options: Any
) -> Checked:
    """Compares an artifact, opened from disk, with the model it came from.

    Args:
        artifact: A file that an emitter wrote.
        source: The model it came from, as for :func:`convert`.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.request.Request`.

    Raises:
        GateError: A gate was missed.
        Others: As :func:`convert`.
    """
    with opened(artifact, source, options) as (work, session, samples):
        from converter.check.accuracy import check_accuracy
        from converter.check.feeding import Fed
        from converter.check.gates import Limits, judge, require
        from converter.check.reference import ReferenceOutputs
        from converter.errors import GateError
        from converter.steps import choose_metrics

        request = work.request
        with told(listener, "reference", "running the source model") as progress:
            work.progress = progress
            folder = work.scratch / "reference"
            reference = ReferenceOutputs.compute(Fed(work.reference()), samples, folder, progress)
        metrics = choose_metrics(request, session, samples)
        with told(listener, "check", f"checking {Path(artifact).name}") as progress:
            accuracy = check_accuracy(
                reference, session, samples, metrics=metrics, progress=progress
            )
        arithmetic = str(reference.runtime.get("arithmetic", ""))
        limits = Limits.of(request, request.precision[0], arithmetic)
        gates = judge(limits, accuracy, metrics_asked=request.metric)
        checked = Checked(based_on(samples) + _not_run(session.runtime), accuracy, gates)
        try:
            require(gates, Path(artifact).name)
        except GateError as error:
            if "precision" not in options and request.min_cosine is None:
                error.hint = "Judged by float32's limits: give --precision of a lower one."
            raise
        return checked


def bench(
    artifact: str,
    against: str | None = None,
    *,
    listener: Listener | None = None,
    **options: Any,
) -> Benchmark:
    """Measures an artifact's latency, and in turns with it that of the model it came from.

    Args:
        artifact: A file that an emitter wrote.
        against: The model to measure beside it; None for the artifact alone.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.request.Request`.

    Raises:
        As :func:`convert`.
    """
    with opened(artifact, against or artifact, options) as (work, session, samples):
        from converter.check.gates import Limits, judge, require
        from converter.check.machine import describe_machine
        from converter.steps import measure_session

        with told(listener, "source", "opening the source model") as progress:
            work.progress = progress
            source = work.reference() if against else None
        with told(listener, "bench", f"measuring {Path(artifact).name}") as progress:
            latency = measure_session(session, source, samples, work.request, progress)
        gates = judge(Limits.of(work.request, "fp32"), None, latency.artifact)
        require([gate for gate in gates if gate.measured], Path(artifact).name)
        return Benchmark(latency, asdict(describe_machine()))


def _not_run(runtime: Mapping[str, Any]) -> str:
    """What was checked in an artifact's place, where it doesn't run here."""
    if not runtime.get("stands_for"):
        return ""
    return (
        f" {runtime['stands_for']} HAS NOT BEEN RUN: {runtime['not_run']}. What was checked is "
        f"{runtime.get('runs', '')} in {runtime['name']}."
    )


def based_on(samples: Samples) -> str:
    if samples.random:
        return f"Checked on RANDOM inputs only ({samples.origin}): give --samples for a real check."
    return f"Checked on {len(samples)} samples ({samples.origin})."
