"""What is wanted of a lowered model: a cosine, a metric that drops no further, or both."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from converter.check.comparison import Comparison
from converter.check.gates import Drop, limit_on
from converter.check.matching import Matching
from converter.check.metric import Metric, MetricResult
from converter.check.metric_drop import Drops
from converter.ir.lists import lists_of
from converter.ir.model import Model
from converter.precision.budget.sensitivity import Judge, cosine_of
from converter.precision.quantized import Quantized
from converter.runtime.session import Session
from converter.samples import Sample
from converter.text import words

HARD = 16
"""About so many samples are judged before the others: those that plain lowering harms most, and as
many evenly spread. A model that fails on them needs no others."""

_EXACT = 1e-9
"""Points: 98.0 - 97.0 of shares of 1 isn't exactly one."""


@dataclass(frozen=True)
class Score:
    """How a lowered model does.

    Attributes:
        value: The more, the better, 1 for no loss; to be held against :attr:`Goal.wanted`.
        said: In words, as in ``cosine 0.9991, top1 84.5% (0.5 points less)``.
    """

    value: float
    said: str


class Goal:
    """What is wanted.

    Args:
        original: The float model.
        samples: All that a lowered model is judged on; the float model's outputs on them are
            kept in memory.
        min_cosine: The smallest cosine to the float model's outputs; None for no limit.
        max_drop: How many points metrics may drop below the float model's; None for no limit.
        metrics: They need labels. Closed by whoever opened them.
        held_back: Share of what the cosine may lack that isn't to be spent: the target rounds
            otherwise than what judges here.
        rounded: See :class:`~converter.precision.budget.sensitivity.Judge`.

    Attributes:
        original: The float model.
    """

    def __init__(
        self,
        original: Model,
        samples: Iterable[Sample],
        *,
        min_cosine: float | None,
        max_drop: Drop = None,
        metrics: Sequence[Metric] = (),
        held_back: float = 0.0,
        rounded: bool = False,
    ) -> None:
        limit = 1.0 if min_cosine is None else min_cosine
        matching = Matching.of(lists_of(original.graph.graph), limit)
        self.original = original
        self._judge = Judge(original, list(samples), rounded=rounded, matching=matching)
        self._asked = min_cosine
        if min_cosine is not None:
            min_cosine += held_back * (1 - min_cosine)
        self._min_cosine, self._max_drop, self._share = min_cosine, max_drop, 1.0
        self._drops = None if max_drop is None else Drops(metrics, self._judge.pairs())
        self._hard: list[int] | None = None

    @property
    def wanted(self) -> float:
        """The value that will do."""
        return 0.0 if self._min_cosine is None or self._drops is not None else self._min_cosine

    def __str__(self) -> str:
        """What was asked for."""
        parts = [] if self._asked is None else [f"cosine >= {words.limit(self._asked)}"]
        if self._max_drop is not None:
            parts.append(f"{_limits(self._max_drop, self._share)} points below float32's")
        return " and ".join(parts)

    @property
    def in_full(self) -> str:
        """That, and where something else is looked for."""
        if self._min_cosine is None or self._min_cosine == self._asked:
            return str(self)
        return f"{self} ({words.limit(self._min_cosine)} here: the target rounds otherwise)"

    def stricter(self, share: float) -> Goal:
        """The same goal with only a share of what may be lost."""
        made = copy.copy(self)
        if self._min_cosine is not None:
            made._min_cosine = 1 - share * (1 - self._min_cosine)
        made._share = share * self._share
        return made

    def narrowed(self, lowered: Quantized, runtimes: Iterable[Session]) -> Goal | None:
        """The same goal where a lowered model misses what was asked for in one of the target's
        runtimes: less may be lost here, by as much as it lost more there; None where it doesn't."""
        there = min((cosine_of(self._judge.compare_in(session)) for session in runtimes), default=1)
        if self._min_cosine is None or self._asked is None or there >= self._asked:
            return None
        here = cosine_of(self._judge.compare(lowered.computed))
        made, lost = copy.copy(self), (1 - here) / (1 - there) * (1 - self._min_cosine)
        made._min_cosine = 1 - float(f"{lost:.1e}")
        return made

    def score(
        self, lowered: Quantized, *, whole: bool = False, threads: int | None = None
    ) -> Score:
        """How the lowered model does.

        Where it fails on a few telling samples, the score is theirs, and no worse than that of
        all would be. The first model is judged alone; others may be in several threads.

        Args:
            lowered: Of the float model.
            whole: Whether all samples are judged in any case.
            threads: Of the model's session; None for one a core.
        """
        computed = lowered.computed
        if not whole and self._hard and self._min_cosine is not None:
            cosine = cosine_of(self._judge.compare(computed, self._hard, threads=threads))
            if cosine < self._min_cosine:
                return self._scored(cosine, [])
        tallies = self._drops.start() if self._drops is not None else None
        also = tallies.add if tallies else None
        comparison = self._judge.compare(computed, also=also, threads=threads)
        if self._hard is None:
            self._hard = self._telling(comparison)
        return self._scored(cosine_of(comparison), tallies.results() if tallies else [])

    def meets(self, score: Score) -> bool:
        """Whether it will do."""
        return score.value >= self.wanted

    def _scored(self, cosine: float, metrics: Sequence[MetricResult]) -> Score:
        said = [f"cosine {self._told(cosine)}", *(_said(metric) for metric in metrics)]
        return Score(self._margin(cosine, metrics) if self._drops else cosine, ", ".join(said))

    def _told(self, cosine: float) -> str:
        return words.beside(cosine, self._min_cosine, words.cosine)

    def _margin(self, cosine: float, metrics: Sequence[MetricResult]) -> float:
        """The least of how far each limit is from being missed, as a share of it."""
        margins = []
        if self._min_cosine is not None:
            margins.append((cosine - self._min_cosine) / max(1 - self._min_cosine, _EXACT))
        if self._max_drop is not None:
            limits = ((metric.drop, limit_on(self._max_drop, metric)) for metric in metrics)
            held = ((drop, limit * self._share) for drop, limit in limits if limit is not None)
            margins += [(limit - drop + _EXACT) / max(limit, _EXACT) for drop, limit in held]
        return min(margins, default=1.0)

    def _telling(self, comparison: Comparison) -> list[int]:
        """The samples to judge first; none where there aren't many."""
        count = len(self._judge.samples)
        if count <= 2 * HARD:
            return []
        worst = {item.sample for output in comparison.floats for item in output.worst_samples}
        picks = {at for at, sample in enumerate(self._judge.samples) if sample.name in worst}
        picks |= {int(at) for at in np.linspace(0, count - 1, max(2, HARD - len(picks)))}
        return sorted(picks)


def _limits(asked: Drop, share: float) -> str:
    """``top1 at most 0.5, other metrics at most 1``."""
    if not isinstance(asked, Mapping):
        return f"metrics at most {words.limit((asked or 0.0) * share)}"
    named = ((name or "other metrics", limit * share) for name, limit in asked.items())
    return ", ".join(f"{name} at most {words.limit(limit)}" for name, limit in named)


def _said(metric: MetricResult) -> str:
    unit = "points" if metric.unit == "%" else metric.unit
    drop = f"{words.number(abs(metric.drop), 3)} {unit}".rstrip()
    how = f"{drop} {'worse' if metric.drop > 0 else 'better'}" if metric.drop else "no worse"
    return f"{metric.name} {words.number(metric.candidate)}{metric.unit} ({how})"
