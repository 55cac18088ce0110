"""By how many points task metrics fall below the source model's: what ``--max-drop`` limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from threading import Lock
from typing import Any

from converter.check.gates import Drop
from converter.check.metric import Metric, MetricResult, MetricTally
from converter.check.sums import Array
from converter.check.task_metrics import default_metrics
from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.options.values import METRICS
from converter.samples import Sample, Samples

Outputs = Mapping[str, Array]


def require_metric(
    asked: Sequence[str], limits: Drop, outputs: Sequence[TensorSpec], samples: Samples
) -> None:
    """Refuses a limit on the drop of a metric that nothing can be said of.

    Args:
        asked: ``--metric``.
        limits: ``--max-drop``.
        outputs: The model's.
        samples: Those that it would be judged on.

    Raises:
        UsageError: The samples have no labels, no metric is known to suit them, or it limits one
            that isn't measured.
    """
    labels = [sample.label for sample in samples]
    without = sum(label is None for label in labels)
    if without:
        raise UsageError(
            f"--max-drop needs labels, and {without} of {len(labels)} samples "
            f"({samples.origin}) have none",
            code="labels",
            hint="Give samples with labels (--samples, --labels), or limit the cosine in place "
            "of the metric: --min-cosine.",
        )
    measured = [PurePath(name).name for name in asked] or default_metrics(outputs, labels)
    if not measured:
        raise UsageError(
            "--max-drop limits how far a metric drops, and no metric of ours suits these "
            "outputs and labels",
            code="metric",
            hint=f"Name one: --metric {', '.join(METRICS)} or FILE.py:FUNCTION.",
        )
    named = [name for name in limits if name] if isinstance(limits, Mapping) else []
    if unknown := [name for name in named if name not in measured]:
        raise UsageError(
            f"--max-drop limits {', '.join(unknown)}, but the metrics that are measured are "
            f"{', '.join(measured)}",
            code="metric",
            hint=f"Measure that metric too: --metric {','.join([*measured, *unknown])}",
        )


class Drops:
    """The source model's metrics, scored once, and how far other models' are below them.

    Args:
        metrics: Closed by whoever opened them.
        pairs: Samples, and the source model's outputs on each.
    """

    def __init__(self, metrics: Sequence[Metric], pairs: Iterable[tuple[Sample, Outputs]]) -> None:
        self._metrics, self._turn = metrics, Lock()
        self._source = [
            [metric.note(outputs, sample) for metric in metrics]
            for sample, outputs in pairs
            if sample.label is not None
        ]

    def start(self) -> Tallies:
        """Tallies for one other model, to be given all labelled samples in order."""
        return Tallies(self._metrics, iter(self._source), self._turn)


class Tallies:
    """One model's metrics, beside the source's; see :class:`Drops`.

    Args:
        metrics: The metrics.
        source: What each metric noted of the source, sample by sample.
        turn: Held while a metric is at work. Models may be judged side by side; a user's metric is
            one process, and COCO's takes over what is printed.
    """

    def __init__(self, metrics: Sequence[Metric], source: Iterator[list[Any]], turn: Lock) -> None:
        self._tallies = [MetricTally(metric) for metric in metrics]
        self._source, self._turn = source, turn

    def add(self, sample: Sample, outputs: Outputs) -> None:
        """Scores the model's outputs on the next sample.

        Raises:
            UsageError: They don't fit a metric.
        """
        if sample.label is None:
            return
        with self._turn:
            for tally, before in zip(self._tallies, next(self._source), strict=True):
                tally.notes.append((sample.name, before, tally.metric.note(outputs, sample)))

    def results(self) -> list[MetricResult]:
        """Each metric; none where no sample had a label."""
        with self._turn:
            return [result for tally in self._tallies if (result := tally.result()) is not None]
