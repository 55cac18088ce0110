"""An accuracy budget: as few layers as it takes go back to float32."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from converter.errors import GateError, ModelError
from converter.plugins import Progress
from converter.quantize.lowered import Kept, Lowered
from converter.quantize.search import NOTHING_LOWERED, Point, Search
from converter.quantize.sensitivity import Cost, Lower

ROWS = 12
"""Most layers in an error's table."""


def meet(
    lower: Lower,
    costs: Sequence[Cost],
    judge: Callable[[Lowered], float],
    wanted: float,
    *,
    time_limit: float,
    metric: str = "cosine",
    progress: Progress | None = None,
) -> Lowered:
    """The model lowered with the smallest set of layers in float that was found to do.

    Args:
        lower: See :data:`converter.quantize.sensitivity.Lower`.
        costs: What :func:`converter.quantize.sensitivity.measure` gave.
        judge: How good a lowered model is: the more, the better.
        wanted: What ``judge`` has to give.
        time_limit: Seconds; after that the best set so far is taken, and its decisions say so.
            An evaluation that has begun is finished.
        metric: What ``judge`` measures, for messages.
        progress: Told what is being tried.

    Returns:
        ``lower(set)``, its ``kept`` telling for each layer of the set what it costs.

    Raises:
        GateError: No set was found; the best point reached and the costs are in it.
    """
    deadline = time.monotonic() + time_limit
    tell = progress or (lambda text: None)

    def evaluate(keep: frozenset[str]) -> float:
        tell(f"trying {len(keep)} layers in float32")
        try:
            lowered = lower(_ordered(costs, keep))
        except ModelError:
            if keep:
                return NOTHING_LOWERED
            raise
        return judge(lowered)

    search = Search(costs, evaluate, wanted, lambda: time.monotonic() >= deadline)
    found = search.run()
    if found is None:
        raise _missed(search, costs, f"{metric} >= {wanted:g}", metric, time_limit)
    return _told(lower(found.keep), found, search, costs, f"{metric} >= {wanted:g}", time_limit)


def _ordered(costs: Sequence[Cost], keep: Collection[str]) -> list[str]:
    return [cost.node for cost in costs if cost.node in keep]


def _told(
    lowered: Lowered,
    found: Point,
    search: Search,
    costs: Sequence[Cost],
    budget: str,
    time_limit: float,
) -> Lowered:
    """``lowered`` with what there is to say of its budget."""
    if not found.keep:
        lowered.decisions.append(f"{budget} is met with every layer lowered: {found.score:.6f}")
        return lowered
    before = {kept.node: kept for kept in lowered.kept}
    for cost in costs:
        if cost.node in found.keep:
            plain = before.get(cost.node) or Kept(cost.node, cost.op, "", cost.macs)
            reason = f"{_described(cost)}; {budget} needs it in float32"
            before[cost.node] = replace(plain, reason=reason, macs=cost.macs, cost=cost.cost)
    lowered.kept = list(before.values())
    lowered.decisions.append(
        f"{budget}: {search.points[0].score:.6f} with every layer lowered, {found.score:.6f} with "
        f"{_layers(found)} in float32; {len(search.points)} sets tried"
    )
    if not search.complete:
        lowered.decisions.append(
            f"the search for layers to keep in float32 was stopped after {time_limit:g} s: "
            "a smaller set may do"
        )
    return lowered


def _described(cost: Cost) -> str:
    words = {
        "alone": "lowered alone it costs {} of the outputs' cosine",
        "back": "in float it wins {} of the outputs' cosine",
        "estimated": "estimated to cost {} of the outputs' cosine",
    }
    return words[cost.how].format(f"{cost.cost:.2g}")


def _layers(point: Point) -> str:
    count = len(point.keep)
    return f"{count} layer{'s' * (count != 1)} ({point.share:.1%} of the multiply-adds)"


def _missed(
    search: Search, costs: Sequence[Cost], budget: str, metric: str, time_limit: float
) -> GateError:
    nearest = search.nearest
    details = []
    if nearest is not None:
        details.append(f"best reached: {metric} {nearest.score:.6f}, {_layers(nearest)} in float32")
    kept = set(nearest.keep) if nearest else set()
    details += [_row(cost, cost.node in kept) for cost in costs[:ROWS]]
    if len(costs) > ROWS:
        details.append(f"and {len(costs) - ROWS} layers that cost less")
    if search.complete:
        why = "no set of layers in float32 that leaves any lowered does"
        hint = "Ask for less, or for a higher precision."
    else:
        why = f"none was found in {time_limit:g} s"
        hint = "Give the search more time (--search-seconds), or ask for less."
    return GateError(f"{budget} is not met: {why}", hint=hint, details=details)


def _row(cost: Cost, kept: bool) -> str:
    macs = f"{cost.macs / 1e6:.2f} million multiply-adds"
    where = ", in float32 there" if kept else ""
    return f"{cost.op} {cost.node}: {macs}, cost {cost.cost:.2g} ({cost.how}){where}"
