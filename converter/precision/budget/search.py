"""Finds a small set of layers which, left in float, let a model meet what is wanted of it.

What is lost about adds up over layers. The set with the fewest multiply-adds that will do by the
layers' costs is tried, the costs are corrected by what that showed (:mod:`.additive`), and so on,
until nothing new comes of it; then layers are given back one after the other, those with the most
multiply-adds first. Both again as long as that gives a smaller set. Every step is a real
evaluation.

Where layers are given back, the next set depends only on whether the last one did, and most don't:
these are evaluated side by side. Sets by learnt costs follow from the last score itself.

Where a lowered model has parts that are fitted to the set in float (corrected biases), they are
fitted anew for every set until one is found that will do: fitted to another set, they can do more
harm than good. After that only now and then, to the best set; and for every set again with what
effort is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from converter.precision.budget.additive import Additive
from converter.precision.budget.sensitivity import Cost

Evaluate = Callable[[frozenset[str]], float]
"""How good the model is with these nodes in float: the more, the better, 1 for all of them;
NOTHING_LOWERED where they are all that could be lowered."""

EvaluateAll = Callable[[Sequence[frozenset[str]]], Generator[float, None, None]]
"""The same of several sets, in their order. Closed before the end, it has no use for the others."""

LOSSLESS = 1.0
NOTHING_LOWERED = math.inf

SHARE = 1e-3
"""Sets whose multiply-adds differ by less than this share of the model's count as equally large."""

IDLE = 8
"""Sets by learnt costs that may fail in a row, or be no news; four times as many while none is
known that will do."""

BOLDER = 1.1
"""By how much more may be lost by learnt costs, after a set that did; its inverse after one that
is no news, or didn't while none is known that will."""

PROMISING = 1.3
"""A layer is given back before others if by learnt costs no more than this share of what is allowed
is lost then."""

ROUNDS = 4
"""Most times that fitted parts are fitted anew."""


class Ended(Exception):
    """Nothing is left to be spent on evaluations."""


@dataclass(frozen=True)
class Point:
    """One set that was tried.

    Attributes:
        keep: Nodes in float, in the costs' order.
        score: What evaluating it gave.
        share: Their share of the multiply-adds that can be lowered.
    """

    keep: tuple[str, ...]
    score: float
    share: float

    @property
    def size(self) -> tuple[float, int, float]:
        """What makes a set large: multiply-adds first, then how many nodes."""
        return round(self.share / SHARE), len(self.keep), self.share


@dataclass
class Search:
    """A search over subsets of the nodes in ``costs``.

    Args:
        costs: Each node's cost and multiply-adds.
        evaluate: See :data:`Evaluate`.
        wanted: The score that will do.
        expired: Whether no evaluation is left; asked before each but the first.
        settle: As ``evaluate``, with everything that is fitted to the nodes in float fitted anew;
            what is evaluated next is near that. None where nothing is fitted.
        on_best: Called where what was just evaluated is the smallest set so far that will do.
        each: As ``evaluate``, of sets side by side; None to evaluate one after the other.
        partial: Whether others than the nodes in ``costs`` are lowered too: all of these may stay
            in float. The first set that will do is enough then.

    Attributes:
        points: All that was tried, in order.
        complete: Whether it came to its end before that.
    """

    costs: Sequence[Cost]
    evaluate: Evaluate
    wanted: float
    expired: Callable[[], bool]
    settle: Evaluate | None = None
    on_best: Callable[[], None] = lambda: None
    each: EvaluateAll | None = None
    partial: bool = False
    points: list[Point] = field(default_factory=list)
    complete: bool = True

    def __post_init__(self) -> None:
        self._known: dict[frozenset[str], Point] = {}
        self._macs = {cost.node: cost.macs for cost in self.costs}
        self._costs = {cost.node: cost.cost for cost in self.costs}
        self._total = sum(self._macs.values())
        self._learnt = Additive(self.costs)
        self._by = self.settle or self.evaluate
        self._settled: list[Point] = []

    def run(self) -> Point | None:
        """The smallest set found that will do, something being lowered still; None for none."""
        try:
            if not self._meets(()):
                self._learn()
                self._by = self.evaluate
                if self.settle is not None:
                    self._learn()
                if not self.partial:
                    self._improve()
        except Ended:
            self.complete = False
        return self.best

    @property
    def best(self) -> Point | None:
        """The smallest set so far that will do."""
        good = [p for p in self.points if p.score >= self.wanted and self._lowers(p)]
        return min(good, key=lambda point: point.size, default=None)

    @property
    def nearest(self) -> Point | None:
        """The set with the best score; the smallest of those that have it."""
        useful = [point for point in self.points if self._lowers(point)]
        return min(useful, key=lambda point: (-point.score, point.size), default=None)

    def _lowers(self, point: Point) -> bool:
        """Whether anything worth it stays lowered: where there are multiply-adds, some of them."""
        if point.score == NOTHING_LOWERED or self.partial:
            return point.score != NOTHING_LOWERED
        kept = set(point.keep)
        left = [cost for cost in self.costs if cost.node not in kept]
        return any(cost.macs for cost in left) if self._total else bool(left)

    def _improve(self) -> None:
        """Makes the best set smaller until that fails."""
        if self.settle is None:
            self._smaller()
            return
        for _ in range(ROUNDS):
            before = self.best
            if before is None:
                return
            self._known.clear()
            self._meets(before.keep, self.settle)
            self._smaller()
            if self.best is before:
                break
        # the same, with everything fitted anew to each set: slower, and what counts in the end
        self._by, self._learnt = self.settle, Additive(self.costs)
        self._known = {frozenset(point.keep): point for point in self._settled}
        for point in self._settled:
            self._note(point)
        self._smaller()

    def _smaller(self) -> None:
        before = None
        while self.best is not before:
            before = self.best
            self._learn()
            self._give_back(self.best.keep if self.best else ())

    def _learn(self) -> None:
        """Tries the lightest sets by costs that are corrected by all that was tried."""
        allowed, idle = LOSSLESS - self.wanted, 0
        enough = 0 if self.partial else IDLE
        while idle < (enough if self.best else 4 * IDLE) and self.costs:
            keep = self._lightest(allowed)
            idle += 1
            if self._larger_than_best(keep):
                allowed *= BOLDER
            elif frozenset(keep) in self._known:
                allowed /= BOLDER
            elif self._meets(keep):
                allowed, idle = allowed * BOLDER, 0
            elif self.best is None:
                allowed /= BOLDER

    def _lightest(self, allowed: float) -> list[str]:
        """Of all layers, the one that costs the least is left out where nothing else would be."""
        keep = self._learnt.lightest(allowed)
        if not self._lowers(self._point(frozenset(keep), 0.0)):
            costs = [cost for cost in self._learnt.costs() if cost.macs or not self._total]
            least = min(costs, key=lambda cost: cost.cost).node
            keep = [node for node in keep if node != least]
        return keep

    def _give_back(self, keep: Sequence[str]) -> None:
        """Tries to lower each kept node again; those without multiply-adds many at once."""
        kept = set(keep)
        learnt = {cost.node: cost.cost for cost in self._learnt.costs()}
        lost = sum(learnt.values()) - sum(learnt[node] for node in keep)
        spare = PROMISING * (LOSSLESS - self.wanted) - lost
        heavy = [node for node in keep if self._macs[node]]
        heavy.sort(key=lambda node: (learnt[node] > spare, -self._macs[node], self._costs[node]))
        light = sorted((n for n in keep if not self._macs[n]), key=lambda node: self._costs[node])
        blocks = [frozenset([node]) for node in heavy] + _halved(light)
        while blocks:
            sets = [frozenset(kept - block) for block in blocks]
            with self._ahead(sets) as by:
                met = next((at for at, key in enumerate(sets) if self._meets(key, by)), None)
            if met is None:
                return
            kept -= blocks[met]
            blocks = [block for block in blocks[met + 1 :] if not block <= blocks[met]]

    @contextmanager
    def _ahead(self, sets: Sequence[frozenset[str]]) -> Iterator[Evaluate | None]:
        """Evaluates these sets side by side, to be asked for in this order until one will do; what
        is fitted to one set is fitted to no other meanwhile."""
        if self.each is None or self._by is self.settle:
            yield None
            return
        with closing(self.each([key for key in sets if key not in self._known])) as scores:
            yield lambda key: next(scores)

    def _larger_than_best(self, keep: Sequence[str]) -> bool:
        return self.best is not None and self._point(frozenset(keep), 0.0).size >= self.best.size

    def _point(self, key: frozenset[str], score: float) -> Point:
        ordered = tuple(cost.node for cost in self.costs if cost.node in key)
        share = sum(self._macs[node] for node in ordered) / (self._total or 1)
        return Point(ordered, score, share)

    def _meets(self, keep: Collection[str], by: Evaluate | None = None) -> bool:
        key, by = frozenset(keep), by or self._by
        point = self._known.get(key)
        if point is None:
            if self.points and self.expired():
                raise Ended
            point = self._known[key] = self._point(key, by(key))
            self.points.append(point)
            if by is self.settle:
                self._settled.append(point)
            if self.best is point:
                self.on_best()
            self._note(point)
        return point.score >= self.wanted

    def _note(self, point: Point) -> None:
        """Learns from it what layers cost."""
        if point.score != NOTHING_LOWERED:
            self._learnt.learn(point.keep, max(0.0, LOSSLESS - point.score))


def _halved(block: Sequence[str]) -> list[frozenset[str]]:
    """All of them, then its halves, each before its own halves; no more for none."""
    middle = len(block) // 2
    halves = [block[:middle], block[middle:]] if middle else []
    whole = [frozenset(block)] if block else []
    return whole + [part for half in halves for part in _halved(half)]
