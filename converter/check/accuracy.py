"""Runs an artifact on the samples and compares it with the source, streaming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from converter.check.comparison import Comparison, OutputResult
from converter.check.gate_result import GateResult
from converter.check.matching import Matching
from converter.check.metric import Metric, MetricResult, MetricTally
from converter.check.metrics import Comparer
from converter.check.reference import ReferenceOutputs, run_sample
from converter.check.sums import Array
from converter.errors import InternalError
from converter.ir.model import TensorSpec
from converter.runtime.session import Progress, Session

if TYPE_CHECKING:
    from converter.check.unsteady import Unsteady
    from converter.samples import Sample


@dataclass(frozen=True)
class Probed:
    """An output that said nothing on the samples, on other inputs.

    Attributes:
        output: Its name.
        inputs: The inputs on which the source gives something that tells; empty without any.
        result: How it compares there (and on the first sample); None without any.
        fits: Whether that is as it has to be: within the limits; of an output that was compared on
            one sample, whether the artifact's changes with the inputs at all.
        tried: Inputs that both ran on.
    """

    output: str
    inputs: str = ""
    result: OutputResult | None = None
    fits: bool = False
    tried: int = 0


@dataclass(frozen=True)
class Tried:
    """What a probe told.

    Attributes:
        probe: Its name, or that of the row that misses a gate.
        kind: As :class:`converter.check.probes.Probe` has it.
        count: How many edges it holds; 1 of any other kind.
        macs: Multiply-adds of a run, about.
        missed: The gate that is missed on it; None where none is.
    """

    probe: str
    kind: str
    count: int = 1
    macs: int = 0
    missed: GateResult | None = None


@dataclass(frozen=True)
class AccuracyResult:
    """How an artifact compares with its source.

    Attributes:
        comparison: Every output, over all samples.
        metrics: Task metrics, where there are labels.
        probed: Outputs that said nothing there, on other inputs.
        constant: Outputs that depend on no input in the source: judged by their value alone.
        unsteady: Samples on which rounding decides (:mod:`converter.check.unsteady`).
        rounded: Outputs whose variation in ``comparison`` is less the source's own rounding, as
            they were with it.
        tried: Probes that it ran on (:mod:`converter.check.probes`).
        left_out: Probes that the budget has no room for.
    """

    comparison: Comparison
    metrics: tuple[MetricResult, ...] = ()
    probed: tuple[Probed, ...] = ()
    constant: tuple[str, ...] = ()
    unsteady: tuple[str, ...] = ()
    rounded: tuple[OutputResult, ...] = ()
    tried: tuple[Tried, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def narrow(self) -> list[str]:
        """The inputs whose integers hold in 32 bits alone, where the source takes larger ones."""
        return [item.probe for item in self.tried if item.kind == "wide" and item.missed]

    @property
    def blind(self) -> list[OutputResult]:
        """The outputs whose comparison on the samples says nothing of the conversion.

        Not those that depend on no input. Other than floats count only where there is no float:
        what is made of scores that were judged (their largest, a count) often is the same for all
        samples. None where the source gives nothing finite at all: that is a missed gate.
        """
        floats = self.comparison.floats
        if floats and all(output.blind == "not finite" for output in floats):
            return []
        return [
            output
            for output in floats or self.comparison.outputs
            if output.blind and not output.shape_problem and output.name not in self.constant
        ]


@dataclass(frozen=True)
class StepError:
    """What a step of the pipeline lost.

    Attributes:
        step: Its name.
        source: Compared with the source framework's outputs.
        previous: Compared with the step before it; for the first step, with the source.
    """

    step: str
    source: Comparison
    previous: Comparison


def check_accuracy(
    reference: Iterable[dict[str, Array]],
    session: Session | ReferenceOutputs,
    samples: Iterable[Sample],
    *,
    metrics: Sequence[Metric] = (),
    outputs: Sequence[TensorSpec] = (),
    constant: Sequence[str] = (),
    integral: Sequence[str] = (),
    matching: Matching | None = None,
    unsteady: Unsteady | None = None,
    rows: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]] = (),
    progress: Progress | None = None,
) -> AccuracyResult:
    """Compares ``session``'s outputs with ``reference``'s on every sample.

    Args:
        reference: The source's outputs, one mapping a sample, in the samples' order.
        session: The artifact, opened from disk, or its outputs where it ran already.
        samples: The same that ``reference`` was computed on.
        metrics: Task metrics to score both with; samples without labels are left out of them.
        outputs: What is known of the outputs: which are scores, and their ranges.
        constant: Those that depend on no input.
        integral: Those that no float leads to.
        matching: Those that are lists, whose rows may be in another order where they tie.
        unsteady: Finds what to compare with where rounding decides.
        rows: What both gave on more rows, which tell how much outputs vary, and nothing else.
        progress: Called with each sample's name before it runs.

    Raises:
        ModelError: The session failed on a sample.
        UsageError: A metric doesn't fit the labels or the outputs.
    """
    ordered = all(_ordered(side) for side in (reference, session))
    comparer = comparer_for(outputs or _specs_of(session), matching, ordered=ordered)
    tallies = [MetricTally(metric) for metric in metrics]
    moved: dict[int, Mapping[str, Array]] = {}
    for number, (sample, expected) in enumerate(_paired(samples, reference)):
        if progress:
            progress(f"checking {sample.name}")
        found = _outputs(session, number, sample)
        same = unsteady.reference(sample, expected, found) if unsteady else expected
        if same is not expected:
            moved[number] = same
        comparer.add(same, found, sample.name)
        for tally in tallies:
            tally.add(expected, found, sample)
    rows = list(rows)
    for row in rows:
        comparer.add_row(*row)
    comparison, rounded = comparer.result().knowing(integral), tuple[OutputResult, ...]()
    if unsteady and (varied := unsteady.varied(comparison)):
        compared = (
            (sample, moved.get(number, expected), _outputs(session, number, sample))
            for number, (sample, expected) in enumerate(_paired(samples, reference))
        )
        less = unsteady.less_rounding(compared, rows, [item.name for item in varied], progress)
        if less:
            comparison, rounded = comparison.varying(less), tuple(varied)
    results = (tally.result() for tally in tallies)
    known = tuple(r for r in results if r is not None)
    proven = tuple(unsteady.proven) if unsteady else ()
    return AccuracyResult(
        comparison, known, constant=tuple(constant), unsteady=proven, rounded=rounded
    )


def _specs_of(session: Session | ReferenceOutputs) -> Sequence[TensorSpec]:
    return () if isinstance(session, ReferenceOutputs) else session.outputs


def _outputs(
    session: Session | ReferenceOutputs, number: int, sample: Sample
) -> Mapping[str, Array]:
    if isinstance(session, ReferenceOutputs):
        return session[number]
    return run_sample(session, sample)


def compare_steps(
    reference: ReferenceOutputs,
    steps: Sequence[tuple[str, ReferenceOutputs | None]],
    outputs: Sequence[TensorSpec] = (),
    matching: Matching | None = None,
    progress: Progress | None = None,
) -> list[StepError]:
    """Compares each step with the source and with the step before it.

    Args:
        reference: The source's outputs.
        steps: Name and outputs of each step's model on the same samples, in the pipeline's order;
            None where the step changed nothing.
        outputs: What is known of the outputs: which are scores, and their ranges.
        matching: As for :func:`check_accuracy`.
        progress: Called with each step's name before it is compared.
    """
    results = []
    before = reference
    known: dict[tuple[str, str], Comparison] = {}

    def compared(one: ReferenceOutputs, other: ReferenceOutputs) -> Comparison:
        """Once of the same outputs, which most steps give."""
        key = one.held, other.held
        if key not in known:
            known[key] = _compare_stored(one, other, comparer_for(outputs, matching))
        return known[key]

    for name, ran in steps:
        if progress:
            progress(f"checking the step {name}")
        after = before if ran is None else ran
        results.append(StepError(name, compared(reference, after), compared(before, after)))
        before = after
    return results


def _compare_stored(
    reference: ReferenceOutputs, candidate: ReferenceOutputs, comparer: Comparer
) -> Comparison:
    for name, expected, found in zip(reference.names, reference, candidate, strict=True):
        comparer.add(expected, found, name)
    return comparer.result()


def _ordered(side: object) -> bool:
    """Whether what runs gives outputs in an order, and not by name alone."""
    runtime = getattr(side, "runtime", None)
    return runtime is not None and not runtime.get("by_name")


def comparer_for(
    outputs: Sequence[TensorSpec], matching: Matching | None = None, *, ordered: bool = False
) -> Comparer:
    """A comparer that uses what the outputs' specs say.

    Args:
        outputs: The specs: ranges, scales and zero points, and which outputs are scores.
        matching: Which outputs are lists, whose rows may be in another order where they tie.
        ordered: Whether both sides give outputs in an order, which is then compared as well.
    """
    ranges = {
        spec.name: max(map(abs, spec.value_range))
        for spec in outputs
        if spec.value_range is not None and spec.is_float
    }
    scales = {
        spec.name: (spec.scale, spec.zero_point or 0) for spec in outputs if spec.scale is not None
    }
    scores = [spec.name for spec in outputs if spec.meaning == "scores"]
    return Comparer(scores, ranges, scales, matching, ordered)


def _paired(
    samples: Iterable[Sample], reference: Iterable[dict[str, Array]]
) -> Iterator[tuple[Sample, dict[str, Array]]]:
    for sample, outputs in zip_longest(samples, reference):
        if sample is None or outputs is None:
            raise InternalError("the reference outputs belong to other samples")
        yield sample, outputs
