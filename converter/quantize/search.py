"""Finds a small set of layers which, left in float, let a model meet what is wanted of it.

Layers are ranked by what they cost for each multiply-add, and by what they cost, and in a ranking
the shortest beginning that will do is found by larger and larger steps from where the costs say
that it is, then by halving. Where what is lost about adds up over layers, the lightest set that
will do by the layers' costs is tried then, the costs are corrected by what that showed
(:mod:`.additive`), and so on.

What was found is made smaller: layers are given back one after the other, those with the most
multiply-adds first, and sets that would be best for so many multiply-adds if costs added up
(:mod:`.knapsack`) are tried with fewer and fewer. Every step is a real evaluation.

Where a lowered model has parts that are fitted to the set in float (corrected biases), they are
fitted anew for every set until one is found that will do: fitted to another set, they can do more
harm than good. After that only now and then, to the best set; and for every set again with what
effort is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from converter.quantize.additive import Additive
from converter.quantize.knapsack import Knapsack
from converter.quantize.sensitivity import Cost

Evaluate = Callable[[frozenset[str]], float]
"""How good the model is with these nodes in float: the more, the better; NOTHING_LOWERED where
they are all that could be lowered."""

NOTHING_LOWERED = math.inf

SHARE = 1e-3
"""Sets whose multiply-adds differ by less than this share of the model's count as equally large;
a layer without multiply-adds counts for this share where layers are ranked by them."""

STEPS = 8
"""A beginning that turns out too short is made longer by one in so many of all layers, then by
twice as many, and so on."""

IDLE = 8
"""Sets by learnt costs that may fail in a row, or be no news; four times as many while none is
known that will do."""

BOLDER = 1.1
"""By how much more may be lost by learnt costs, after a set that did; its inverse after one that
didn't."""

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
        lossless: The score with nothing lowered, where what is missing to it about adds up over
            layers; None where it doesn't.

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
    lossless: float | None = 1.0
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
            if self._meets(()):
                return self.best
            first, *others = self._orders()
            self._shortest(first)
            if self.best is None:
                self._learn()
            self._by = self.evaluate
            self._learn()
            for order in others:
                self._shortest(order)
            self._improve()
            if self.settle is not None:
                self._improve_settled(self.settle)
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
        if point.score == NOTHING_LOWERED:
            return False
        kept = set(point.keep)
        left = [cost for cost in self.costs if cost.node not in kept]
        return any(cost.macs for cost in left) if self._total else bool(left)

    def _orders(self) -> list[list[str]]:
        floor = SHARE * self._total or 1.0
        nodes = [cost.node for cost in self.costs]
        by_cost = sorted(nodes, key=lambda node: -self._costs[node])
        by_ratio = sorted(nodes, key=lambda node: -self._costs[node] / (self._macs[node] + floor))
        return [by_ratio] if by_ratio == by_cost else [by_ratio, by_cost]

    def _shortest(self, order: Sequence[str]) -> None:
        """Finds the shortest beginning of ``order`` that will do, if longer ones do too."""
        most = self._most(order)
        short, length = 0, min(self._expected(order), most)
        step = max(1, len(order) // STEPS)
        while not self._larger_than_best(order[:length]):
            if self._meets(order[:length]):
                break
            if length >= most:
                return
            short, length, step = length, min(length + step, most), 2 * step
        while length - short > 1:
            middle = (short + length) // 2
            if self._larger_than_best(order[:middle]):
                length = middle  # not worth a try; what is shorter may be
            elif self._meets(order[:middle]):
                length = middle
            else:
                short = middle

    def _most(self, order: Sequence[str]) -> int:
        """How many of ``order`` may stay in float so that something worth it is lowered."""
        return max((at for at, node in enumerate(order) if self._macs[node] or not self._total))

    def _expected(self, order: Sequence[str]) -> int:
        """How many of ``order`` it takes by learnt costs; 1 where those don't add up."""
        if self.lossless is None:
            return 1
        learnt = {cost.node: cost.cost for cost in self._learnt.costs()}
        lost, allowed = sum(learnt.values()), self.lossless - self.wanted
        for length, node in enumerate(order):
            if lost <= allowed:
                return max(1, length)
            lost -= learnt[node]
        return len(order)

    def _improve(self) -> None:
        """Makes the best set smaller until that fails."""
        for _ in range(ROUNDS):
            before = self.best
            if before is None:
                return
            if self.settle is not None:
                self._known.clear()
                self._meets(before.keep, self.settle)
            self._smaller()
            if self.settle is None or self.best is before:
                return

    def _improve_settled(self, settle: Evaluate) -> None:
        """The same, with everything fitted anew to each set: slower, and what counts in the end."""
        self._by, self._learnt = settle, Additive(self.costs)
        self._known = {frozenset(point.keep): point for point in self._settled}
        for point in self._settled:
            self._note(point)
        self._smaller()

    def _smaller(self) -> None:
        self._learn()
        self._give_back(self.best.keep if self.best else ())
        self._pack()

    def _pack(self) -> None:
        """Looks for a lighter set among those that a knapsack makes."""
        if self.best is None:
            return
        knapsack = Knapsack(self.costs)
        low, high = 0, knapsack.weight(self.best.keep)
        found: list[str] = []
        while high - low > 1:
            middle = (low + high) // 2
            keep = knapsack.best(middle)
            if self._meets(keep):
                high, found = min(middle, knapsack.weight(keep)), keep
            else:
                low = middle
        self._give_back(found)

    def _learn(self) -> None:
        """Tries the lightest sets by costs that are corrected by all that was tried."""
        if self.lossless is None:
            return
        allowed, idle = self.lossless - self.wanted, 0
        while idle < (IDLE if self.best else 4 * IDLE):
            keep = self._learnt.lightest(allowed)
            idle += 1
            if self._larger_than_best(keep):
                allowed *= BOLDER
            elif frozenset(keep) in self._known:
                allowed /= BOLDER
            elif self._meets(keep):
                allowed, idle = allowed * BOLDER, 0

    def _give_back(self, keep: Sequence[str]) -> None:
        """Tries to lower each kept node again; those without multiply-adds many at once."""
        kept = set(keep)
        heavy = [node for node in keep if self._macs[node]]
        heavy.sort(key=lambda node: (-self._macs[node], self._costs[node]))
        if self.lossless is not None:
            learnt = {cost.node: cost.cost for cost in self._learnt.costs()}
            lost = sum(learnt.values()) - sum(learnt[node] for node in keep)
            spare = PROMISING * (self.lossless - self.wanted) - lost
            heavy.sort(key=lambda node: learnt[node] > spare)  # stable
        light = sorted((n for n in keep if not self._macs[n]), key=lambda node: self._costs[node])
        blocks = [[node] for node in heavy] + ([light] if light else [])
        while blocks:
            block = blocks.pop(0)
            if self._meets(kept.difference(block)):
                kept.difference_update(block)
            elif len(block) > 1:
                middle = len(block) // 2
                blocks[:0] = [block[:middle], block[middle:]]

    def _larger_than_best(self, keep: Sequence[str]) -> bool:
        return self.best is not None and self._point(frozenset(keep), 0.0).size >= self.best.size

    def _point(self, key: frozenset[str], score: float) -> Point:
        ordered = tuple(cost.node for cost in self.costs if cost.node in key)
        share = sum(self._macs[node] for node in ordered) / (self._total or 1)
        return Point(ordered, score, share)

    def _meets(self, keep: Sequence[str] | set[str], by: Evaluate | None = None) -> bool:
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
        if self.lossless is not None and point.score != NOTHING_LOWERED:
            self._learnt.learn(point.keep, max(0.0, self.lossless - point.score))
