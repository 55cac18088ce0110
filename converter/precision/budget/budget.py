"""An accuracy budget: as few layers as it takes go back to float32."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from converter.errors import BudgetError, ModelError
from converter.precision.budget.candidates import Beside
from converter.precision.budget.effort import Effort
from converter.precision.budget.goal import Goal, Score
from converter.precision.budget.search import NOTHING_LOWERED, Point, Search
from converter.precision.budget.sensitivity import Cost, Quantize
from converter.precision.quantized import Kept, Quantized
from converter.runtime.session import Progress

LOG = logging.getLogger("modelyard.budget")
"""What a budget's search tried, at DEBUG."""

ROWS = 12
"""Most layers in an error's table."""


@dataclass(frozen=True)
class Words:
    """How a search is told of.

    Attributes:
        counted: What sets are counted by.
        where: Where the layers of a set are.
        so: What a layer needs that the budget takes out.
    """

    counted: str = "multiply-adds"
    where: str = "in float32"
    so: str = "in float32"


WEIGHTS = Words("weights", "as they are", "as they are")
"""Of weights alone in fewer bits."""

_NOTHING = Score(NOTHING_LOWERED, "nothing lowered")


@dataclass
class Budget:
    """A goal to be met with the smallest set of layers in float.

    Args:
        lower: See :data:`converter.precision.budget.sensitivity.Quantize`.
        costs: What :func:`converter.precision.budget.sensitivity.measure` gave.
        goal: What is wanted.
        effort: After that the best set so far is taken.
        settle: As ``lower``, with everything that is fitted to the set in float fitted anew;
            ``lower`` then takes that over. None where nothing is fitted.
        settling: How many evaluations one with ``settle`` counts for.
        progress: Told what is being tried.
        words: How it is told of; costs have what it counts in the place of multiply-adds.
        plain: With every layer lowered, and how that does, where it is known.
        beside: How many sets are evaluated at a time, where ``lower`` may be called in several
            threads; None for what the machine allows.

    Attributes:
        best: The model with the smallest set that will do, and how it does.
        first: How the model does with every layer lowered.
    """

    lower: Quantize
    costs: Sequence[Cost]
    goal: Goal
    effort: Effort
    settle: Quantize | None = None
    settling: float = 1.0
    progress: Progress = lambda text: None
    words: Words = Words()
    plain: tuple[Quantized, Score] | None = None
    beside: Beside | None = None
    best: tuple[Quantized, Score] | None = None
    first: Score = _NOTHING

    def search(self, *, partial: bool = False) -> Search:
        """The search, done; see :class:`~converter.precision.budget.search.Search`."""
        search = Search(
            self.costs,
            lambda keep: self._judge(self.lower, keep),
            self.goal.wanted,
            lambda: not self.effort.spend(),
            settle=self._settled if self.settle else None,
            on_best=self._hold,
            each=self._judge_each,
            partial=partial,
        )
        search.run()
        return search

    def _settled(self, keep: frozenset[str]) -> float:
        self.effort.charge(self.settling - 1 if keep else 0)
        return self._judge(self.settle or self.lower, keep)

    def _judge(self, lower: Quantize, keep: frozenset[str]) -> float:
        self.progress(f"trying {len(keep)} layers {self.words.where}")
        return self._told(keep, self._made(lower, keep))

    def _judge_each(self, sets: Sequence[frozenset[str]]) -> Generator[float, None, None]:
        beside = self.beside or Beside.of(self.goal.original)

        def made(keep: frozenset[str]) -> tuple[Quantized, Score] | None:
            return self._made(self.lower, keep, beside.threads)

        with closing(beside.each(made, sets)) as found:
            for keep, one in zip(sets, found, strict=True):
                self.progress(f"tried {len(keep)} layers {self.words.where}")
                yield self._told(keep, one)

    def _made(
        self, lower: Quantize, keep: frozenset[str], threads: int | None = None
    ) -> tuple[Quantized, Score] | None:
        """The model with ``keep`` in float, and how it does; None where nothing is lowered."""
        if not keep and self.plain:
            return self.plain
        try:
            lowered = lower([cost.node for cost in self.costs if cost.node in keep])
        except ModelError:
            if not keep:
                raise
            return None
        return lowered, self.goal.score(lowered, threads=threads)

    def _told(self, keep: frozenset[str], made: tuple[Quantized, Score] | None) -> float:
        self._last = made
        score = made[1] if made else _NOTHING
        if made:
            where = self.words.where
            LOG.debug("%s: %s with %d layers %s", self.goal, score.said, len(keep), where)
        if not keep:
            self.first = score
        return score.value

    def _hold(self) -> None:
        self.best = self._last

    def meet(self) -> Quantized:
        """The model lowered with the smallest set of layers in float that was found to do, its
        ``kept`` telling for each layer what it costs, its decisions whether the effort ended.

        Raises:
            BudgetError: No set was found; the best point reached and the costs are in it.
        """
        search = self.search()
        found = search.best
        if found is None or self.best is None:
            raise self._missed(search)
        lowered, score = self.best
        if not found.keep:
            lowered.decisions.append(met_at_once(self.goal, score))
            return lowered
        lowered.kept = self._kept(lowered, found)
        lowered.decisions.append(
            f"{self.goal.in_full}: {self.first.said} with every layer lowered; {score.said} with "
            f"{self._layers(found)} {self._where(lowered.kept)}; {len(search.points)} sets tried"
        )
        if not search.complete:
            lowered.decisions.append(
                f"the search for layers to keep {self.words.where} was stopped "
                f"{self.effort.ended}: a smaller set may do"
            )
        return lowered

    def _kept(self, lowered: Quantized, found: Point) -> list[Kept]:
        """What ``lowered`` keeps, with the reason and the cost of those found."""
        kept, words = {item.node: item for item in lowered.kept}, self.words
        for cost in self.costs:
            if cost.node in found.keep:
                plain = kept.get(cost.node) or Kept(cost.node, cost.op, "", cost.macs)
                kept[cost.node] = replace(
                    plain,
                    reason=f"{self.goal} needs it {'so' if plain.instead else words.so}",
                    macs=cost.macs if words.counted == "multiply-adds" else plain.macs,
                    cost=cost.cost,
                    how=cost.how,
                )
        return list(kept.values())

    def _where(self, kept: Iterable[Kept]) -> str:
        """What was done to the layers that a budget took out."""
        if self.words.counted != "multiply-adds":
            return self.words.where
        ways = {item.instead or "in float32" for item in kept if item.cost is not None}
        return "in float32" if ways == {"in float32"} else "out of static int8"

    def _layers(self, point: Point) -> str:
        count = len(point.keep)
        return f"{count} layer{'s' * (count != 1)} ({point.share:.1%} of the {self.words.counted})"

    def _missed(self, search: Search) -> BudgetError:
        nearest, words, details = search.nearest, self.words, []
        if nearest is not None:
            lowered = (self.settle or self.lower)(nearest.keep)
            said = self.goal.score(lowered, whole=True).said
            details.append(f"best reached: {said}, {self._layers(nearest)} {words.where}")
        kept = set(nearest.keep) if nearest else set()
        details += [_row(cost, cost.node in kept, words) for cost in self.costs[:ROWS]]
        if len(self.costs) > ROWS:
            details.append(f"and {len(self.costs) - ROWS} layers that cost less")
        if search.complete:
            why = f"no set of layers {words.where} was found, {len(search.points)} were tried"
            hint = "Ask for less, or for a higher precision."
        else:
            why = f"none was found {self.effort.ended}"
            hint = f"Let the search go on for longer ({self.effort.option}), or ask for less."
        return BudgetError(f"{self.goal.in_full} is not met: {why}", hint=hint, details=details)


def met_at_once(goal: Goal, score: Score) -> str:
    """What is said of a budget that needs no layer in float."""
    return f"{goal.in_full} is met with every layer lowered: {score.said}"


def _row(cost: Cost, kept: bool, words: Words) -> str:
    macs = f"{cost.macs / 1e6:.2f} million {words.counted}"
    where = f", {words.where} there" if kept else ""
    return f"{cost.op} {cost.node}: {macs}, cost {cost.cost:.2g} ({cost.how}){where}"
