"""Judges an artifact against the model it came from: check() and bench()."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.commands.opened import artifact_macs, emitter_of, fed_to, opened, told
from converter.commands.shown import escape, table
from converter.pipeline.folders import find_artifact
from converter.pipeline.run import Listener
from converter.protocols.emitter import Artifact

if TYPE_CHECKING:
    from converter.check.accuracy import AccuracyResult
    from converter.check.gates import GateResult, Limits
    from converter.check.latency import LatencyRatio, LatencyResult
    from converter.check.probes import Probes
    from converter.diff.stage import Stage
    from converter.diff.where import Outputs
    from converter.ir.lists import Rows
    from converter.pipeline.work import Work
    from converter.runtime.session import Session
    from converter.samples import Sample, Samples


Macs = Callable[[Mapping[str, int]], int]


@dataclass(frozen=True, repr=False)
class Checked:
    """How an artifact compares with the model it came from."""

    based_on: str
    accuracy: AccuracyResult
    gates: Sequence[GateResult]

    def __repr__(self) -> str:
        told = ", ".join(f"{gate.name} {gate.status}" for gate in self.gates)
        return f"<Checked: {told}>"

    def _repr_html_(self) -> str:
        outputs = table(("output", "cosine", "max error", "SQNR", "NaN/Inf"), self.rows())
        gates = table(("gate", "limit", "value", ""), self.gate_rows())
        return f"<p>{escape(self.based_on)}</p>{outputs}{gates}"

    @property
    def verdict(self) -> str:
        """As a report's: ``passed``, ``not judged``."""
        from converter.report.model import verdict_of

        return verdict_of(self.gates)

    @property
    def flags(self) -> list[str]:
        """What comes before everything else: ``Not judged: y (zero on all 8 samples)...``."""
        from converter.report.model import FLAGS, flag, narrowed

        flagged = [gate for gate in self.gates if gate.name in FLAGS and not gate.passed]
        told = [narrowed(self.accuracy.narrow)] if self.accuracy.narrow else []
        return [*(flag(gate.name, gate.why) for gate in flagged), *told]

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "verdict": self.verdict,
            "based_on": self.based_on,
            "accuracy": asdict(self.accuracy),
            "gates": [asdict(gate) for gate in self.gates],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """A line for each output."""
        from converter.text import words

        return [
            (
                output.name,
                words.cosine(output.cosine),
                words.number(output.max_abs),
                words.decibel(output.sqnr_db, exact=output.equal == 1),
                str(output.introduced + output.altered),
            )
            for output in self.accuracy.comparison.outputs
        ]

    def gate_rows(self) -> list[tuple[str, ...]]:
        """A line for each gate: its name, limit, value, what became of it and why."""
        from converter.check.gates import numbers
        from converter.report.model import FLAGS
        from converter.text.words import NONE

        rows: list[tuple[str, ...]] = []
        for gate in self.gates:
            found, limit = numbers(gate)
            why = gate.why if gate.passed or gate.name not in FLAGS else "said at the top"
            rows.append((gate.name, limit or NONE, found or NONE, gate.status, why))
        return rows


@dataclass(frozen=True, repr=False)
class Benchmark:
    """Latencies of an artifact, and of what it was measured against; what else it costs."""

    latency: LatencyResult
    machine: Mapping[str, Any]
    gates: Sequence[GateResult] = ()

    def __repr__(self) -> str:
        told = (f"{row[0]} {row[3]} ms at batch {row[1]}" for row in self.rows())
        return f"<Benchmark: {', '.join(told)}>"

    def _repr_html_(self) -> str:
        names = ("what", "batch", "callers", "p50 ms", "p95 ms", "p99 ms", "per second", "ratio")
        return table(names, self.rows())

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        found = asdict(self.latency)
        costs = {name: found.pop(name) for name in ("memory", "profile")}
        gates = [asdict(gate) for gate in self.gates]
        return {"latency": found, **costs, "gates": gates, "machine": dict(self.machine)}

    def rows(self) -> list[tuple[str, ...]]:
        """A line for each point."""
        from converter.text import words

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


def _ratio(ratio: LatencyRatio | None, role: str) -> str:
    from converter.text import words

    return "" if ratio is None or role != "artifact" else words.speedup(ratio)


def check(
    artifact: str, source: str, *, listener: Listener | None = None, **options: Any
) -> Checked:
    """Compares an artifact, opened from disk, with the model it came from.

    Args:
        artifact: A file that an emitter wrote, or the output folder that holds it alone (see
            :func:`converter.pipeline.folders.artifacts_of`).
        source: The model it came from, as for :func:`convert`.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.options.request.Request`.

    Raises:
        GateError: A gate was missed.
        Others: As :func:`convert`.
    """
    found = find_artifact(artifact)
    found.require_weights(source, options)
    with opened(artifact, source, options) as (work, session, samples):
        known = bool(found.target) or "precision" in options
        macs = partial(artifact_macs, found, work.request)
        return judged(
            work, session, samples, found.title, listener, known=known, macs=macs,
            artifact=found.path, texts=emitter_of(found).texts,
        )  # fmt: skip


def judged(
    work: Work,
    session: Session,
    samples: Samples,
    title: str,
    listener: Listener | None = None,
    *,
    known: bool = True,
    macs: Macs | None = None,
    artifact: Path | None = None,
    texts: bool = True,
) -> Checked:
    """Runs the source and a session on the samples and on probes, and holds one to the other.

    Args:
        work: The source.
        session: An artifact, or a server.
        samples: What both run on.
        title: What the session is, for messages.
        listener: Told how it goes on.
        known: Whether its precision was given: float32's limits go for any other.
        macs: Multiply-adds of one run, for sizes of free dimensions; None of a server's model.
        artifact: The artifact, where that is what runs.
        texts: Whether it can give text; else the source's outputs that are text don't count.

    Raises:
        GateError: A gate was missed.
        ModelError: One of them can't run, or gives other outputs each time.
    """
    from converter.check.accuracy import check_accuracy
    from converter.check.gate_result import located
    from converter.check.gates import Limits, judge, require
    from converter.check.matching import Matching
    from converter.check.probes import AGAIN
    from converter.check.probing import Prober
    from converter.check.reference import ReferenceOutputs, first_size, require_repeatable
    from converter.check.task_metrics import choose_metrics
    from converter.check.trying import Trier, magnitudes, parted, rows_in, run_probes
    from converter.check.unsteady import Unsteady, run_shaken
    from converter.errors import GateError
    from converter.ir.texts import texts_to_leave
    from converter.pipeline.where import Missed, where_it_parts
    from converter.protocols.wrapped import Narrowed
    from converter.report.model import SamplesReport, checked_on
    from converter.text import words

    request = work.request
    with told(listener, "reference", "running the source model") as progress:
        work.opened.progress = progress
        folder, once = work.scratch / "reference", work.opened.once
        left_out = [] if texts else texts_to_leave(once.outputs)
        running, answers = Narrowed(once, left_out), once.answers.without(left_out)
        require_repeatable(running, next(iter(samples)), "the source", partial(answers, tag=AGAIN))
        reference = ReferenceOutputs.compute(running, samples, folder, progress)
    metrics = choose_metrics(request, session, samples)
    arithmetic = str(reference.runtime.get("arithmetic", ""))
    limits = Limits.of(request, request.precision[0], arithmetic)
    with told(listener, "check", f"checking {title}") as progress:
        require_repeatable(session, next(iter(samples)), title)
        size = first_size(reference, samples)
        probes = _probes(work, session, samples, limits, macs, size)
        asked = probes.answered(answers, session.outputs)
        ran = list(run_probes(asked, session, progress, remote=macs is None))
        compare = partial(
            check_accuracy, reference, session, samples, metrics=metrics, progress=progress
        )
        accuracy = compare(rows=rows_in(ran, session.outputs))
        lists: list[Rows] = []
        if not _kept(limits, accuracy):
            lists, integral = _known(work)
            matching = Matching.of(lists, limits.cosine)
            unsteady = Unsteady(work.opened.session, limits, session.outputs, matching)
            rows = rows_in(ran, session.outputs, lists)
            accuracy = compare(matching=matching, unsteady=unsteady, integral=integral, rows=rows)
        others: list[tuple[Sample, Outputs, Outputs]] = []
        if accuracy.blind:
            prober = Prober(running.run, session, samples, limits, session.outputs, lists)
            accuracy, others = prober.probe(accuracy, request.seed, progress), prober.parting
            accuracy = replace(accuracy, constant=_constant(work, accuracy))
        shaken = partial(run_shaken, work.opened.session)
        trier = Trier(limits, shaken, session.outputs, lists, magnitudes(reference))
        accuracy = trier.judge(accuracy, ran, probes.left_out)
        missed = Missed(
            accuracy, limits, session.outputs, Matching.of(lists, limits.cosine), samples,
            reference, session, [*parted(accuracy.tried, ran, session.outputs), *others],
        )  # fmt: skip
        stages = partial(_stages, work, artifact)
        where = where_it_parts(missed, stages, work.opened.session, progress)
    gates = located(judge(limits, accuracy, metrics_asked=request.metric), where)
    sampled = SamplesReport.of(samples, probed=request.probes)
    based_on = checked_on(sampled, words.runtime(reference.runtime))
    checked = Checked(based_on + _not_run(session.runtime), accuracy, gates)
    try:
        require(gates, title)
    except GateError as error:
        numbers = any(gate.status == "failed" and gate.value is not None for gate in gates)
        if numbers and not known and request.min_cosine is None:
            lower = "Judged by float32's limits: give --precision of a lower one."
            error.hint = f"{error.hint} {lower}".strip()
        raise
    return checked


def _probes(
    work: Work, session: Session, samples: Samples, limits: Limits, macs: Macs | None, size: int
) -> Probes:
    """What else both run on; the graph is looked at where reading it takes no framework."""
    from converter.check.probes import Builder, Probes
    from converter.verify.probes import sizes_of

    if not work.request.probes:
        return Probes()
    seed, exact = work.request.seed, limits.exact
    if work.parser.framework is None:
        return Builder.of(work.opened.read, samples, exact=exact, seed=seed, size=size).build()
    cost = macs(sizes_of(session.inputs, next(iter(samples)).feeds)) if macs else 0
    return Builder(session.inputs, samples, exact, seed, cost, size).build()


def _kept(limits: Limits, accuracy: AccuracyResult) -> bool:
    """Whether outputs keep to their limits, as they were compared: integers exactly."""
    from converter.check.gates import judge

    exact = (output for output in accuracy.comparison.outputs if output.kind == "exact")
    missed = any(gate.status == "failed" for gate in judge(limits, accuracy))
    return not missed and all(output.equal == 1 for output in exact)


def _stages(work: Work, artifact: Path | None) -> list[Stage]:
    """The graph that is read of the source, and the artifact."""
    from converter.diff.stage import Stage
    from converter.pipeline.where import as_graph, named

    graph = as_graph(artifact, work.scratch / "where") if artifact else None
    return [Stage("read", named(work.opened.read.copy())), Stage("", graph)]


def _known(work: Work) -> tuple[list[Rows], list[str]]:
    """The source's outputs that are lists, and those that no float leads to; looked for only where
    an output isn't the source's."""
    from converter.errors import ModelyardError
    from converter.ir.dependence import integral_outputs
    from converter.ir.lists import lists_of

    try:
        graph = work.opened.read.graph.graph
    except ModelyardError:  # the source runs: that it can't be exported is no matter here
        return [], []
    return lists_of(graph), integral_outputs(graph)


def _constant(work: Work, accuracy: AccuracyResult) -> tuple[str, ...]:
    """The source's outputs that depend on no input; looked for only where no inputs tell."""
    from converter.errors import ModelyardError
    from converter.ir.dependence import constant_outputs

    if all(item.result is not None for item in accuracy.probed):
        return ()
    try:
        return tuple(constant_outputs(work.opened.read.graph.graph))
    except ModelyardError:  # the source runs: that it can't be exported is no matter here
        return ()


def bench(
    artifact: str,
    against: str | None = None,
    *,
    listener: Listener | None = None,
    **options: Any,
) -> Benchmark:
    """Measures an artifact's latency, and in turns with it that of the model it came from.

    Args:
        artifact: As for :func:`check`.
        against: The model to measure beside it; None for the artifact alone.
        listener: Told how it goes on.
        **options: Fields of :class:`converter.options.request.Request`.

    Raises:
        As :func:`convert`.
    """
    found = find_artifact(artifact)
    with opened(artifact, against or artifact, options) as (work, session, samples):
        from converter.check.gates import Limits, judge, require
        from converter.machine import describe_machine
        from converter.pipeline.steps import measure_session
        from converter.pipeline.steps.costs import with_costs

        with told(listener, "source", "opening the source model") as progress:
            work.opened.progress = progress
            source = work.opened.session() if against else None
        with told(listener, "bench", f"measuring {found.title}") as progress:
            latency = measure_session(session, source, samples, work.request, progress)
        request, feeds = work.request, fed_to(session, samples)
    with told(listener, "costs", f"measuring what {found.title} costs") as progress:  # once alone
        target = emitter_of(found).name
        made = Artifact(target, request.precision[0], found.path, [found.path])
        latency = with_costs(latency, made, request, feeds, progress)
    judged_gates = judge(Limits.of(request, "fp32"), None, latency.artifact, memory=latency.memory)
    gates = [gate for gate in judged_gates if gate.measured]
    require(gates, found.title)
    return Benchmark(latency, asdict(describe_machine()), gates)


def _not_run(runtime: Mapping[str, Any]) -> str:
    """What was checked in an artifact's place, where it doesn't run here."""
    if not runtime.get("stands_for"):
        return ""
    return (
        f" {runtime['stands_for']} HAS NOT BEEN RUN: {runtime['not_run']}. Checked instead: "
        f"{runtime.get('runs', '')} in {runtime['name']}."
    )
