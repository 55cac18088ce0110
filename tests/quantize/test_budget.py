"""A budget is met with the smallest set of layers in float, or it is said how far it went."""

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import pytest

from converter import plugins
from converter.errors import GateError, ModelError
from converter.ir.model import Model
from converter.precision.budget.budget import Budget
from converter.precision.budget.candidates import Beside
from converter.precision.budget.effort import Effort
from converter.precision.budget.goal import Goal
from converter.precision.budget.knapsack import UNITS, Knapsack
from converter.precision.budget.search import Point, Search
from converter.precision.budget.sensitivity import Cost, Judge, cosine_of, measure
from converter.precision.calibrate.ranges import collect
from converter.precision.int8.insert import quantize
from converter.precision.int8.scheme import ONNXRUNTIME_CPU
from converter.precision.quantized import Quantized
from converter.precision.summary import summary
from tests.passes.real import real_model, real_samples
from tests.quantize.fake import OUTLIERS, noises, rounding


@pytest.fixture(scope="module")
def costs(model: Model) -> list[Cost]:
    return measure(rounding(model), model, noises(), effort=Effort(1000))


Met = Callable[..., Quantized]


@pytest.fixture(scope="module")
def met(model: Model, costs: list[Cost]) -> Met:
    """``met(cosine)``: what is lowered with that budget; ``evaluations``, ``lower`` and ``costs``
    are what a test has of its own."""

    def meeting(cosine: float, evaluations: int = 1000, **own: Any) -> Quantized:
        lower, known = own.get("lower", rounding(model)), own.get("costs", costs)
        effort = own.get("effort", Effort(evaluations))
        return Budget(lower, known, Goal(model, noises(), min_cosine=cosine), effort).meet()

    return meeting


@pytest.fixture(scope="module")
def judged(model: Model) -> Callable[[Quantized], float]:
    """The cosine over the samples that a budget is judged on."""
    judge = Judge(model, list(noises()))
    return lambda lowered: cosine_of(judge.compare(lowered.model))


Judging = Callable[[Quantized], float]


def test_only_the_layers_that_need_it_stay(
    model: Model, met: Met, judged: Judging, costs: list[Cost]
) -> None:
    assert judged(rounding(model)(())) < 0.9
    made = met(0.95)
    assert {kept.node for kept in made.kept} == OUTLIERS
    assert judged(made) >= 0.95
    assert made.share == pytest.approx(1 - 2 * 24 * 24 / made.macs) == pytest.approx(6 / 7)
    assert all(kept.cost is not None and kept.cost > 0.01 for kept in made.kept)
    assert "2 layers (" in made.decisions[-1]
    lines = list(summary(made))
    assert lines[0] == "int8: 6 nodes; 2 more could be, and stayed float32" and len(lines) == 3
    for line, cost in zip(lines[1:], costs, strict=False):
        assert line == (
            f"{cost.node} (MatMul) stays float32: cosine >= 0.95 needs it in float32; lowered "
            f"alone it costs {cost.cost:.2g} of the outputs' cosine; 7.1% of the multiply-adds"
        )


def subsets(names: Sequence[str], most: int) -> Iterator[tuple[str, ...]]:
    sizes = range(most + 1)
    return itertools.chain(*(itertools.combinations(names, count) for count in sizes))


def test_no_smaller_set_does(model: Model, met: Met, judged: Judging, costs: list[Cost]) -> None:
    """A budget in between, held against every set of layers there is; the same each time."""
    lower, macs = rounding(model), {cost.node: cost.macs for cost in costs}
    fine = [keep for keep in subsets(sorted(macs), 4) if judged(lower(keep)) >= 0.995]
    made = met(0.995)
    best = min(sum(macs[name] for name in keep) for keep in fine)
    assert sum(macs[kept.node] for kept in made.kept) == best
    assert met(0.995).decisions == made.decisions


def test_a_budget_that_plain_meets_keeps_nothing(model: Model, met: Met) -> None:
    calls, plain = [], rounding(model)

    def lower(keep: Collection[str]) -> Quantized:
        calls.append(keep)
        return plain(keep)

    assert (met(-0.9, lower=lower).kept, len(calls)) == ([], 1)


def test_a_budget_that_cannot_be_met_says_how_far_it_went(met: Met, costs: list[Cost]) -> None:
    with pytest.raises(GateError, match="no set of layers") as caught:
        met(1.5)
    error = caught.value
    assert error.exit_code == 4 and "cosine >= 1.5" in error.message
    assert error.details[0].startswith("best reached: cosine 0.99")
    assert sum("million multiply-adds, cost" in line for line in error.details) == 8
    assert costs[0].node in error.details[1]
    with pytest.raises(GateError) as caught:
        met(1.0)  # all in float gives exactly 1, and would be no int8 model
    assert "8 layers" not in caught.value.details[0]


def test_a_layer_that_is_all_there_is_to_lower_is_no_layer_to_keep(model: Model, met: Met) -> None:
    """As a scheme refuses to lower nothing."""
    plain = rounding(model)

    def lower(keep: Collection[str]) -> Quantized:
        made = plain(keep)
        if not made.lowered:
            raise ModelError("nothing can be int8")
        return made

    with pytest.raises(GateError):
        met(0.99, lower=lower, costs=[Cost("fc2", "MatMul", 0, 1)])
    costs = [Cost(f"fc{i}", "MatMul", 0, 0.1) for i in range(8)]  # nothing is known of them
    with pytest.raises(GateError, match="no set of layers"):
        met(1.0, lower=lower, costs=costs)
    made = met(0.9, lower=lower, costs=costs)
    assert {kept.node for kept in made.kept if kept.cost} >= {"fc2"}


def over(evaluations: int) -> Callable[[], bool]:
    """Whether so many evaluations are over."""
    effort = Effort(evaluations)
    return lambda: not effort.spend()


def made_up(seed: int, count: int = 24) -> list[Cost]:
    """Layers whose costs add up."""
    rng = random.Random(seed)
    found = [
        Cost(f"n{i}", "Conv" if i % 3 else "Add", rng.randrange(1, 100) if i % 3 else 0,
             rng.random() ** 4 / 10)
        for i in range(count)
    ]  # fmt: skip
    return sorted(found, key=lambda cost: -cost.cost)


def summed(costs: list[Cost], **others: float) -> Callable[[Collection[str]], float]:
    """Judges sets of layers in float by what the others cost together."""
    each = {cost.node: cost.cost for cost in costs} | others
    return lambda keep: 1 - sum(cost for name, cost in each.items() if name not in keep)


def tenth(costs: list[Cost]) -> float:
    """The score at which a tenth is lost of what all layers cost."""
    return 1 - sum(cost.cost for cost in costs) / 10


@pytest.mark.parametrize("seed", range(20))
def test_sets_are_minimal_and_near_the_optimum_where_costs_add_up(seed: int) -> None:
    costs = made_up(seed)
    wanted, evaluate = tenth(costs), summed(costs)
    search = Search(costs, evaluate, wanted, lambda: False)
    found = search.run()
    assert found is not None and search.complete
    assert evaluate(found.keep) >= wanted
    for name in found.keep:
        assert evaluate(set(found.keep) - {name}) < wanted
    # the share that fractional knapsack needs is a bound from below
    macs = sum(cost.macs for cost in costs)
    excess, bound = 9 * (1 - wanted), 0.0
    for cost in sorted(costs, key=lambda c: c.macs / c.cost):
        part = min(1.0, excess / cost.cost)
        bound, excess = bound + part * cost.macs, excess - part * cost.cost
        if excess <= 0:
            break
    assert found.share <= bound / macs + 0.08
    assert len(search.points) < 40


@pytest.mark.parametrize("seed", range(4))
def test_the_knapsack_packs_the_best_set_for_every_weight(seed: int) -> None:
    costs = made_up(seed, count=9)
    knapsack, each = Knapsack(costs), {cost.node: cost.cost for cost in costs}
    total = sum(cost.macs for cost in costs)
    units = {cost.node: max(1, round(UNITS * cost.macs / total)) for cost in costs}
    weights = {names: sum(units[n] for n in names) for names in subsets(list(each), len(each))}
    for capacity in (0, 1, 50, 333, 700, sum(units.values())):
        best = max(sum(each[n] for n in names) for names in weights if weights[names] <= capacity)
        found = knapsack.best(capacity)
        assert sum(units[n] for n in found) <= capacity
        assert sum(each[n] for n in found) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(5))
def test_a_layer_that_costs_far_more_than_estimated_is_found(seed: int) -> None:
    """As a first layer does, whose error all others pass on: within few evaluations."""
    costs = [replace(cost, how="estimated") for cost in made_up(seed)]
    total = 10 * (1 - tenth(costs))
    first = min((cost for cost in costs if cost.macs), key=lambda cost: cost.cost).node
    evaluate = summed(costs, **{first: 10 * total})
    found = Search(costs, evaluate, 1 - total, over(12)).run()
    assert found is not None and first in found.keep
    assert found.share < 0.6


@pytest.mark.parametrize("seed", range(5))
def test_layers_that_cost_nothing_alone_may_together(seed: int) -> None:
    costs = made_up(seed)
    wanted, evaluate = tenth(costs), summed(costs)
    found = Search([replace(cost, cost=0.0) for cost in costs], evaluate, wanted, over(60)).run()
    assert found is not None and evaluate(found.keep) >= wanted
    assert found.share < 0.7


@pytest.mark.parametrize("seed", range(6))
def test_layers_are_given_back_where_costs_add_up_as_squares(seed: int) -> None:
    """Then more stays in float, by costs that are taken to add up, than has to."""
    costs = made_up(seed)
    each, wanted = {cost.node: cost.cost for cost in costs}, tenth(costs)

    def evaluate(keep: Collection[str]) -> float:
        return 1 - math.hypot(*(cost for name, cost in each.items() if name not in keep))

    found = Search(costs, evaluate, wanted, lambda: False).run()
    assert found is not None and evaluate(found.keep) >= wanted
    for name in found.keep:
        assert evaluate(set(found.keep) - {name}) < wanted


def test_fitting_anew_until_a_set_does() -> None:
    """What is fitted to other sets does harm: then only sets that are fitted anew will do."""
    costs, fitted = made_up(3), frozenset[str]()
    wanted, plain = tenth(costs), summed(costs)

    def evaluate(keep: frozenset[str]) -> float:
        return plain(keep) - 0.1 * len(keep ^ fitted)

    def settle(keep: frozenset[str]) -> float:
        nonlocal fitted
        fitted = keep
        return evaluate(keep)

    found = Search(costs, evaluate, wanted, lambda: False, settle=settle).run()
    ideal = Search(costs, settle, wanted, lambda: False).run()
    assert found is not None and ideal is not None
    assert found.share == pytest.approx(ideal.share, abs=0.05)


def test_an_effort_that_ends_leaves_the_best_so_far() -> None:
    costs = made_up(1)
    wanted, evaluate = tenth(costs), summed(costs)
    best = Search(costs, evaluate, wanted, lambda: False).run()
    shares = []
    for evaluations in range(1, 40):
        search = Search(costs, evaluate, wanted, over(evaluations))
        found = search.run()
        assert len(search.points) <= evaluations + 1
        if found is not None:
            assert found.score >= wanted
            shares.append(found.size)
    assert shares == sorted(shares, reverse=True)
    assert best is not None and shares[-1] == best.size
    assert not Search(costs, evaluate, wanted, over(0)).run()


WAYS = (Beside(1, 2), Beside(2, 1), Beside(3, 1))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("evaluations", [9, 14, 1000])
def test_sets_are_tried_in_the_same_order_side_by_side(seed: int, evaluations: int) -> None:
    """What was begun and isn't wanted any more counts for nothing, and is little."""
    costs = made_up(seed)
    wanted, score = tenth(costs), summed(costs)

    def tried(beside: Beside | None) -> tuple[list[Point], int]:
        begun, turn = list[frozenset[str]](), Lock()

        def evaluate(keep: frozenset[str]) -> float:
            with turn:
                begun.append(keep)
            return score(keep)

        each = None if beside is None else lambda sets: beside.each(evaluate, sets)
        search = Search(costs, evaluate, wanted, over(evaluations), each=each)
        search.run()
        assert len(set(begun)) == len(begun)
        return search.points, len(begun)

    points, count = tried(None)
    assert count == len(points) <= evaluations + 1
    for beside in WAYS:
        found, count = tried(beside)
        assert found == points
        good = sum(point.score >= wanted for point in points)
        assert len(points) <= count <= len(points) + beside.workers * (good + 1)


@pytest.mark.parametrize("evaluations", [6, 1000])
def test_real_int8_is_searched_the_same_side_by_side(
    model: Model, caplog: pytest.LogCaptureFixture, evaluations: int
) -> None:
    """What was tried, in which order, with which scores, and what is told of it."""
    caplog.set_level("DEBUG", "modelyard.budget")
    samples, ways = noises(), list[Any]()
    ranges = collect(model, samples, few=True)

    def lower(keep: Collection[str]) -> Quantized:
        return quantize(model, ranges, ONNXRUNTIME_CPU, keep=keep)

    costs = measure(lower, model, samples, effort=Effort(1000))
    wanted = 1 - sum(cost.cost for cost in costs) / 2
    for beside in WAYS:
        caplog.clear()
        told: list[str] = []
        goal, effort = Goal(model, samples, min_cosine=wanted), Effort(evaluations)
        budget = Budget(lower, costs, goal, effort, beside=beside, progress=told.append)
        points = budget.search().points
        best = budget.best and (budget.best[0].lowered, budget.best[1])
        ways.append((points, best, [*caplog.messages], len(told)))
        assert len(points) == len(told) == len(caplog.messages)
    assert all(way == ways[0] for way in ways)
    assert ways[0][1] is not None or evaluations == 6


@pytest.mark.parametrize(("effort", "after", "option"), [
    (Effort(0), "after 0 evaluations", "--search-evaluations"),
    (Effort(1000, seconds=0), "after 0 s", "--search-seconds"),
])  # fmt: skip
def test_an_effort_that_ends_is_said(met: Met, effort: Effort, after: str, option: str) -> None:
    """Only the plain model is judged."""
    with pytest.raises(GateError) as caught:
        met(0.98, effort=effort)
    assert f"none was found {after} ({option})" in caught.value.message
    assert option in caught.value.hint


def test_a_search_that_was_stopped_is_told(met: Met) -> None:
    """After so many sets, whatever the machine."""
    whole, made = met(0.995), met(0.995, 7)
    assert made.decisions[-1] == (
        "the search for layers to keep in float32 was stopped after 7 evaluations "
        "(--search-evaluations): a smaller set may do"
    )
    assert "; 8 sets tried" in made.decisions[-2]
    assert not any("was stopped" in line for line in whole.decisions)
    assert made.macs_lowered <= whole.macs_lowered


@pytest.mark.slow
def test_a_real_model_in_real_int8() -> None:
    """Speech detection: its encoder's convolutions don't stand int8; which, is found."""
    model, samples = real_model("silero-op15"), real_samples("silero-op15", 4)
    model = Model(plugins.load("passes", "normalize")(model.graph).model)
    ranges = collect(model, samples, few=True)
    judge = Judge(model, list(samples))

    def lower(keep: Collection[str]) -> Quantized:
        return quantize(model, ranges, ONNXRUNTIME_CPU, keep=keep)

    def score(lowered: Quantized) -> float:
        return cosine_of(judge.compare(lowered.model))

    plain = lower(())
    wanted = 1 - (1 - score(plain)) / 10
    costs = measure(lower, model, samples, effort=Effort(1000))
    assert {cost.node for cost in costs} == set(plain.lowered)
    goal = Goal(model, samples, min_cosine=wanted)
    made, other = (Budget(lower, costs, goal, Effort(1000), beside=way).meet() for way in WAYS[:2])
    assert (made.kept, made.decisions) == (other.kept, other.decisions)
    assert score(made) == score(other) >= wanted
    assert made.lowered
    kept = [item.node for item in made.kept if item.cost is not None]
    assert kept
    for name in kept:
        assert score(lower([other for other in kept if other != name])) < wanted
