"""An accuracy budget: as few layers as it takes go back to float32."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from converter.errors import GateError, ModelError
from converter.plugins import Progress
from converter.quantize.effort import Effort
from converter.quantize.goal import Goal, Score
from converter.quantize.lowered import Kept, Lowered
from converter.quantize.search import NOTHING_LOWERED, Point, Search
from converter.quantize.sensitivity import Cost, Lower

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


class BudgetError(GateError):
    """No set of layers in float32 meets a budget."""


@dataclass
class _Trials:
    """Lowers and judges sets of layers, and holds on to the best that does."""

    costs: Sequence[Cost]
    goal: Goal
    progress: Progress
    words: Words = Words()
    last: tuple[Lowered, Score] | None = None
    best: tuple[Lowered, Score] | None = None
    scores: list[Score] = field(default_factory=list)

    def judge(self, lower: Lower, keep: frozenset[str]) -> float:
        self.progress(f"trying {len(keep)} layers {self.words.where}")
        self.last = None
        try:
            lowered = lower(_ordered(self.costs, keep))
        except ModelError:
            if not keep:
                raise
            return self._note(_NOTHING)
        score = self.goal.score(lowered)
        self.last = lowered, score
        return self._note(score)

    def hold(self) -> None:
        """Holds on to what was judged last."""
        self.best = self.last

    def _note(self, score: Score) -> float:
        self.scores.append(score)
        return score.value


def meet(
    lower: Lower,
    costs: Sequence[Cost],
    goal: Goal,
    *,
    effort: Effort,
    settle: Lower | None = None,
    settling: float = 1.0,
    progress: Progress | None = None,
    words: Words = Words(),
) -> Lowered:
    """The model lowered with the smallest set of layers in float that was found to do.

    Args:
        lower: See :data:`converter.quantize.sensitivity.Lower`.
        costs: What :func:`converter.quantize.sensitivity.measure` gave.
        goal: What is wanted.
        effort: After that the best set so far is taken, and its decisions say so.
        settle: As ``lower``, with everything that is fitted to the set in float fitted anew;
            ``lower`` then takes that over. None where nothing is fitted.
        settling: How many evaluations one with ``settle`` counts for.
        progress: Told what is being tried.
        words: How it is told of; costs have what it counts in the place of multiply-adds.

    Returns:
        The model with that set in float, its ``kept`` telling for each layer what it costs.

    Raises:
        BudgetError: No set was found; the best point reached and the costs are in it.
    """
    trials = _Trials(costs, goal, progress or (lambda text: None), words)

    def settled(keep: frozenset[str]) -> float:
        effort.charge(settling - 1)
        return trials.judge(settle or lower, keep)

    search = Search(
        costs,
        lambda keep: trials.judge(lower, keep),
        goal.wanted,
        lambda: not effort.spend(),
        settle=None if settle is None else settled,
        on_best=trials.hold,
        lossless=1.0 if goal.additive else None,
    )
    found = search.run()
    if found is None or trials.best is None:
        raise _missed(search, costs, goal, settle or lower, effort, words)
    lowered, score = trials.best
    return _told(lowered, found, search, [trials.scores[0], score], costs, goal, effort, words)


def _ordered(costs: Sequence[Cost], keep: Collection[str]) -> list[str]:
    return [cost.node for cost in costs if cost.node in keep]


def _told(
    lowered: Lowered,
    found: Point,
    search: Search,
    scores: Sequence[Score],
    costs: Sequence[Cost],
    goal: Goal,
    effort: Effort,
    words: Words,
) -> Lowered:
    """``lowered`` with what there is to say of its budget."""
    if not found.keep:
        lowered.decisions.append(met_at_once(goal, scores[0]))
        return lowered
    before = {kept.node: kept for kept in lowered.kept}
    for cost in costs:
        if cost.node in found.keep:
            plain = before.get(cost.node) or Kept(cost.node, cost.op, "", cost.macs)
            before[cost.node] = replace(
                plain,
                reason=f"{goal} needs it {'so' if plain.instead else words.so}",
                macs=cost.macs if words.counted == "multiply-adds" else plain.macs,
                cost=cost.cost,
                how=cost.how,
            )
    lowered.kept = list(before.values())
    lowered.decisions.append(
        f"{goal.in_full}: {scores[0].said} with every layer lowered; {scores[1].said} with "
        f"{_layers(found, words)} {_where(before.values(), words)}; {len(search.points)} sets tried"
    )
    if not search.complete:
        lowered.decisions.append(
            f"the search for layers to keep {words.where} was stopped {effort.ended}: "
            "a smaller set may do"
        )
    return lowered


def _where(kept: Iterable[Kept], words: Words) -> str:
    """What was done to the layers that a budget took out."""
    if words.counted != "multiply-adds":
        return words.where
    ways = {item.instead or "in float32" for item in kept if item.cost is not None}
    return "in float32" if ways == {"in float32"} else "out of static int8"


def met_at_once(goal: Goal, score: Score) -> str:
    """What is said of a budget that needs no layer in float."""
    return f"{goal.in_full} is met with every layer lowered: {score.said}"


def _layers(point: Point, words: Words) -> str:
    count = len(point.keep)
    return f"{count} layer{'s' * (count != 1)} ({point.share:.1%} of the {words.counted})"


def _missed(
    search: Search,
    costs: Sequence[Cost],
    goal: Goal,
    lower: Lower,
    effort: Effort,
    words: Words,
) -> BudgetError:
    nearest = search.nearest
    details = []
    if nearest is not None:
        score = goal.score(lower(nearest.keep), whole=True)
        details.append(f"best reached: {score.said}, {_layers(nearest, words)} {words.where}")
    kept = set(nearest.keep) if nearest else set()
    details += [_row(cost, cost.node in kept, words) for cost in costs[:ROWS]]
    if len(costs) > ROWS:
        details.append(f"and {len(costs) - ROWS} layers that cost less")
    if search.complete:
        why = f"no set of layers {words.where} was found, {len(search.points)} were tried"
        hint = "Ask for less, or for a higher precision."
    else:
        why = f"none was found {effort.ended}"
        hint = f"Let the search go on for longer ({effort.option}), or ask for less."
    return BudgetError(f"{goal.in_full} is not met: {why}", hint=hint, details=details)


def _row(cost: Cost, kept: bool, words: Words) -> str:
    macs = f"{cost.macs / 1e6:.2f} million {words.counted}"
    where = f", {words.where} there" if kept else ""
    return f"{cost.op} {cost.node}: {macs}, cost {cost.cost:.2g} ({cost.how}){where}"
