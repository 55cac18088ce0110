"""Where an artifact that missed a gate parts from its source, as the report says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from converter import plugins
from converter.check.accuracy import AccuracyResult, comparer_for
from converter.check.gates import Limits
from converter.check.matching import Matching
from converter.check.output_gates import judge_variation
from converter.check.reference import ReferenceOutputs
from converter.errors import ModelyardError
from converter.files.reading import reading
from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.pipeline.work import find_parser
from converter.runtime.session import Progress, Session
from converter.samples import Sample

if TYPE_CHECKING:
    from converter.diff.stage import Stage
    from converter.diff.where import Outputs

SAMPLES = 2
"""Samples that part, to look at."""


@dataclass(frozen=True)
class Missed:
    """An artifact that may have missed a gate.

    Attributes:
        accuracy: How it compares with its source.
        limits, outputs, matching: What its outputs are held to.
        samples: What it was compared on.
        reference: What the source gave for them.
        artifact: What the artifact gave; or what runs it.
        probes: Probes, and other inputs, on which it parts, as samples, with what the source and
            the artifact give.
    """

    accuracy: AccuracyResult
    limits: Limits
    outputs: Sequence[TensorSpec]
    matching: Matching
    samples: Iterable[Sample]
    reference: ReferenceOutputs
    artifact: ReferenceOutputs | Session
    probes: Sequence[tuple[Sample, Outputs, Outputs]] = ()

    @property
    def parts(self) -> bool:
        """Whether an output misses a limit."""
        return bool(self.probes) or not self._within(self.accuracy)

    def parting(self) -> tuple[list[Sample], list[Outputs]]:
        """Some samples on which an output misses a limit, or else probes, and what the source gives
        for them."""
        found: tuple[list[Sample], list[Outputs]] = [], []
        pairs = zip(self.samples, self.reference, strict=True)
        for number, (sample, expected) in enumerate(pairs):
            proven = sample.name in self.accuracy.unsteady
            if not proven and not self.kept(expected, self._given(number, sample)):
                found[0].append(sample)
                found[1].append(expected)
            if len(found[0]) == SAMPLES:
                return found
        if not found[0]:
            for probe, given, _ in self.probes[:SAMPLES]:
                found[0].append(probe)
                found[1].append(given)
        return found

    def kept(self, expected: Outputs, given: Outputs) -> bool:
        """Whether all outputs on one sample are within the limits."""
        comparer = comparer_for(self.outputs, self.matching)
        comparer.add(expected, given)
        return self._within(AccuracyResult(comparer.result()))

    def _within(self, accuracy: AccuracyResult) -> bool:
        found = accuracy.comparison
        outputs = (not o.shape_problem and self.limits.kept_by(o) for o in found.outputs)
        varied = judge_variation(self.limits, found.outputs)
        return not found.missing and all(outputs) and all(gate.passed for gate in varied)

    def _given(self, number: int, sample: Sample) -> Outputs:
        if isinstance(self.artifact, ReferenceOutputs):
            return self.artifact[number]
        return self.artifact.run(sample.feeds)


def where_it_parts(
    missed: Missed,
    stages: Callable[[], Sequence[Stage]],
    source: Callable[[], Session],
    progress: Progress,
) -> str:
    """A sentence that names the step and the operator or module in which an artifact parts from its
    source; empty where it doesn't, or nobody can tell.

    Args:
        missed: The artifact.
        stages: What the steps made, asked for where it parts: as :func:`locate` takes them.
        source: Opens the source.
        progress: Told what is being done.
    """
    if not missed.parts:
        return ""
    progress("looking for where it parts from its source")
    with suppress(ModelyardError):
        samples, expected = missed.parting()
        if samples:
            from converter.diff.where import locate

            return locate(stages(), samples, expected, missed.kept, source).sentence
    return ""


def as_graph(path: Path, scratch: Path) -> Model | None:
    """An artifact as a graph; None where no parser reads it as data.

    Args:
        path: The artifact.
        scratch: A folder for what reads it, to be kept for as long as the graph is.
    """
    with suppress(ModelyardError):
        request = Request(source=str(path))
        parser, identity = find_parser(request)
        if identity.runs_code:
            return None
        scratch.mkdir(parents=True, exist_ok=True)
        with reading(path.name):
            source = parser.open(request, scratch, lambda text: None)
            try:
                return named(source.parse())
            finally:
                source.close()
    return None


def named(model: Model) -> Model:
    """The model, changed so that everything in it has a name."""
    model.graph = plugins.load("passes", "normalize")(model.graph).model
    return model
