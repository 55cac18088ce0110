"""What a task metric is, and what it comes to over labelled samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from converter.check.sums import Array, is_float
from converter.errors import UsageError
from converter.samples import Sample

KEPT_SAMPLES = 20
"""How many samples a result names of those that got worse."""


@dataclass(frozen=True)
class MetricSample:
    """One sample's value: with the source's outputs and with the candidate's."""

    sample: str
    source: float
    candidate: float


@dataclass(frozen=True)
class MetricResult:
    """A metric over all labelled samples.

    Attributes:
        name: As the user wrote it, without a path.
        unit: ``%`` where source, candidate and drop are percentages; else the metric's own.
        higher_is_better: Which way is better.
        samples: How many had a label.
        source, candidate: The means.
        drop: By how many points the candidate is worse; negative where it is better.
        worse, better: How many samples got worse, and better.
        examples: Samples that got worse, most first.
    """

    name: str
    unit: str
    higher_is_better: bool
    samples: int
    source: float
    candidate: float
    drop: float
    worse: int = 0
    better: int = 0
    examples: tuple[MetricSample, ...] = ()


class Metric(ABC):
    """Gives a number for the outputs and labels of samples."""

    name: str
    higher_is_better: bool = True
    unit: str | None = None
    """``%`` for shares of 1, another text, or None where the values decide."""

    @abstractmethod
    def note(self, outputs: Mapping[str, Array], sample: Sample) -> Any:
        """What of a sample counts.

        Args:
            outputs: The sample's outputs by name, in the model's order.
            sample: It has a label.

        Raises:
            UsageError: The label or the outputs don't fit the metric.
        """

    @abstractmethod
    def of_sample(self, note: Any) -> float:
        """The number of one sample alone, to tell which got worse."""

    @abstractmethod
    def total(self, notes: Sequence[Any]) -> float:
        """The metric, of at least one sample."""

    def close(self) -> None:  # noqa: B027 - most have nothing to end
        """Ends what the metric runs in."""


class SampleMetric(Metric):
    """The mean of a number of each sample."""

    def note(self, outputs: Mapping[str, Array], sample: Sample) -> Any:
        return self.score(outputs, sample.label)

    def of_sample(self, note: Any) -> float:
        return float(note)

    def total(self, notes: Sequence[Any]) -> float:
        return float(np.mean(notes))

    @abstractmethod
    def score(self, outputs: Mapping[str, Array], label: Any) -> float:
        """The value for one sample.

        Args:
            outputs: The sample's outputs by name, in the model's order.
            label: The sample's label.

        Raises:
            UsageError: The label or the outputs don't fit the metric.
        """


@dataclass
class MetricTally:
    """What counts of the source's and the candidate's outputs, sample by sample.

    Attributes:
        metric: What counts.
        notes: Every labelled sample's name and what counts of it on both sides, in order.
    """

    metric: Metric
    notes: list[tuple[str, Any, Any]] = field(default_factory=list)

    def add(
        self, source: Mapping[str, Array], candidate: Mapping[str, Array], sample: Sample
    ) -> None:
        """Counts one sample; one without a label is left out.

        Args:
            source: The source's outputs for it, by name.
            candidate: The artifact's outputs for it, by name.
            sample: The sample, with its label.
        """
        if sample.label is not None:
            sides = (self.metric.note(outputs, sample) for outputs in (source, candidate))
            self.notes.append((sample.name, *sides))

    def result(self) -> MetricResult | None:
        """Both sides' metric; None where no sample had a label."""
        if not self.notes:
            return None
        of_sample = self.metric.of_sample
        samples = [MetricSample(name, *map(of_sample, sides)) for name, *sides in self.notes]
        unit, scale = self._unit(samples)
        source, candidate = (
            scale * self.metric.total([note[side] for note in self.notes]) for side in (1, 2)
        )
        sign = 1 if self.metric.higher_is_better else -1
        lost = [(sign * (item.source - item.candidate), item) for item in samples]
        worse = sorted((pair for pair in lost if pair[0] > 0), key=lambda pair: -pair[0])
        return MetricResult(
            self.metric.name,
            unit,
            self.metric.higher_is_better,
            len(samples),
            source,
            candidate,
            sign * (source - candidate),
            len(worse),
            sum(loss < 0 for loss, _ in lost),
            tuple(item for _, item in worse[:KEPT_SAMPLES]),
        )

    def _unit(self, samples: Sequence[MetricSample]) -> tuple[str, float]:
        if self.metric.unit is not None:
            return self.metric.unit, 100.0 if self.metric.unit == "%" else 1.0
        values = [value for item in samples for value in (item.source, item.candidate)]
        shares = all(0 <= value <= 1 for value in values)
        return ("%", 100.0) if shares else ("", 1.0)


def first_float(outputs: Mapping[str, Array], metric: str) -> Array:
    """The first output of floats; raises UsageError where there is none."""
    for array in outputs.values():
        if is_float(np.asarray(array).dtype):
            return np.asarray(array)
    raise UsageError(f"{metric}: the model has no float output", code="metric")


def scores_of(outputs: Mapping[str, Array], metric: str) -> Array:
    """The first output of floats whose last axis has two or more; raises UsageError."""
    for array in outputs.values():
        array = np.asarray(array)
        if is_float(array.dtype) and array.ndim and array.shape[-1] >= 2:
            return array
    raise UsageError(
        f"{metric}: the model has no output that holds scores of classes", code="metric"
    )
