"""A budget is met with the smallest set of layers in float, or it is said how far it went."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from converter import plugins
from converter.errors import GateError, ModelError
from converter.ir import Model
from converter.quantize.budget import meet
from converter.quantize.effort import Effort
from converter.quantize.goal import Goal
from converter.quantize.insert import quantize
from converter.quantize.knapsack import Knapsack
from converter.quantize.lowered import Lowered
from converter.quantize.ranges import collect
from converter.quantize.scheme import ONNXRUNTIME_CPU
from converter.quantize.search import Search
from converter.quantize.sensitivity import Cost, Judge, cosine_of, measure
from converter.quantize.told import told
from tests.passes.real import real_model, real_samples
from tests.quantize.fake import OUTLIERS, chain, noises, rounding


@pytest.fixture(scope="module")
def model() -> Model:
    return chain()


@pytest.fixture(scope="module")
def costs(model: Model) -> list[Cost]:
    return measure(rounding(model), model, noises(), effort=Effort(1000))


class Judged:
    """The cosine over the samples that a budget is judged on."""

    def __init__(self, model: Model) -> None:
        self.judge = Judge(model, list(noises()))

    def __call__(self, lowered: Lowered) -> float:
        return cosine_of(self.judge.compare(lowered.model))


def least(model: Model, cosine: float) -> Goal:
    """The goal of that cosine."""
    return Goal(model, noises(), min_cosine=cosine)


def test_only_the_layers_that_need_it_stay(model: Model, costs: list[Cost]) -> None:
    lower, judge = rounding(model), Judged(model)
    assert judge(lower(())) < 0.9
    made = meet(lower, costs, least(model, 0.95), effort=Effort(1000))
    assert {kept.node for kept in made.kept} == OUTLIERS
    assert judge(made) >= 0.95
    assert made.share == pytest.approx(1 - 2 * 24 * 24 / made.macs)
    for kept in made.kept:
        assert kept.cost is not None and kept.cost > 0.01
        assert "cosine >= 0.95 needs it in float32" in kept.reason
    assert "2 layers (" in made.decisions[-1]


def test_no_smaller_set_does(model: Model, costs: list[Cost]) -> None:
    """A budget in between, held against every set of layers there is."""
    lower, judge = rounding(model), Judged(model)
    names, macs = [cost.node for cost in costs], {cost.node: cost.macs for cost in costs}
    scores = {
        keep: judge(lower(keep))
        for count in range(5)
        for keep in itertools.combinations(sorted(names), count)
    }
    wanted = 0.995
    made = meet(lower, costs, least(model, wanted), effort=Effort(1000))
    found = sum(macs[kept.node] for kept in made.kept)
    best = min(sum(macs[n] for n in keep) for keep, score in scores.items() if score >= wanted)
    assert found == best


def test_a_budget_that_plain_meets_keeps_nothing(model: Model, costs: list[Cost]) -> None:
    calls = 0
    plain = rounding(model)

    def lower(keep: Collection[str]) -> Lowered:
        nonlocal calls
        calls += 1
        return plain(keep)

    made = meet(lower, costs, least(model, -0.9), effort=Effort(1000))
    assert (made.kept, calls) == ([], 1)


def test_the_same_each_time(model: Model, costs: list[Cost]) -> None:
    made = [
        meet(rounding(model), costs, least(model, 0.995), effort=Effort(1000)).decisions
        for _ in range(2)
    ]
    assert made[0] == made[1]


def test_a_budget_that_cannot_be_met_says_how_far_it_went(model: Model, costs: list[Cost]) -> None:
    with pytest.raises(GateError) as caught:
        meet(rounding(model), costs, least(model, 1.5), effort=Effort(1000))
    error = caught.value
    assert error.exit_code == 4
    assert "cosine >= 1.5" in error.message
    assert "no set of layers" in error.message
    assert error.details[0].startswith("best reached: cosine 0.99")
    assert sum("million multiply-adds, cost" in line for line in error.details) == 8
    assert costs[0].node in error.details[1]


def test_everything_in_float_is_no_way_to_meet_it(model: Model, costs: list[Cost]) -> None:
    """All in float gives exactly 1, and would be no int8 model."""
    with pytest.raises(GateError) as caught:
        meet(rounding(model), costs, least(model, 1.0), effort=Effort(1000))
    assert "8 layers" not in caught.value.details[0]


def test_a_layer_that_is_all_there_is_to_lower_is_no_layer_to_keep(model: Model) -> None:
    """As a scheme refuses to lower nothing."""
    plain = rounding(model)

    def lower(keep: Collection[str]) -> Lowered:
        made = plain(keep)
        if not made.lowered:
            raise ModelError("nothing can be int8")
        return made

    with pytest.raises(GateError):
        meet(lower, [Cost("fc2", "MatMul", 0, 1)], least(model, 0.99), effort=Effort(1000))
    names = [f"fc{i}" for i in range(8)]
    costs = [Cost(name, "MatMul", 0, 0.1) for name in names]  # nothing is known of them
    with pytest.raises(GateError, match="no set of layers"):
        meet(lower, costs, least(model, 1.0), effort=Effort(1000))
    made = meet(lower, costs, least(model, 0.9), effort=Effort(1000))
    assert {kept.node for kept in made.kept if kept.cost} >= {"fc2"}


class Clock:
    """A limit of so many evaluations."""

    def __init__(self, evaluations: int) -> None:
        self.left = evaluations

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


def made_up(seed: int, count: int = 24) -> list[Cost]:
    """Layers whose costs add up."""
    rng = random.Random(seed)
    found = [
        Cost(f"n{i}", "Conv" if i % 3 else "Add", rng.randrange(1, 100) if i % 3 else 0,
             rng.random() ** 4 / 10)
        for i in range(count)
    ]  # fmt: skip
    return sorted(found, key=lambda cost: -cost.cost)


def additive(costs: list[Cost]) -> dict[str, float]:
    return {cost.node: cost.cost for cost in costs}


def summed(each: dict[str, float]) -> Callable[[Collection[str]], float]:
    """Judges sets of layers in float by what the others cost together."""
    return lambda keep: 1 - sum(cost for name, cost in each.items() if name not in keep)


@pytest.mark.parametrize("seed", range(20))
def test_sets_are_minimal_and_near_the_optimum_where_costs_add_up(seed: int) -> None:
    costs = made_up(seed)
    each = additive(costs)
    total = sum(each.values())
    wanted = 1 - total / 10
    evaluate = summed(each)
    search = Search(costs, evaluate, wanted, lambda: False)
    found = search.run()
    assert found is not None and search.complete
    assert evaluate(found.keep) >= wanted
    for name in found.keep:
        assert evaluate(set(found.keep) - {name}) < wanted
    # the share that fractional knapsack needs is a bound from below
    macs = sum(cost.macs for cost in costs)
    excess, bound = total - total / 10, 0.0
    for cost in sorted(costs, key=lambda c: c.macs / c.cost):
        part = min(1.0, excess / cost.cost)
        bound, excess = bound + part * cost.macs, excess - part * cost.cost
        if excess <= 0:
            break
    assert found.share <= bound / macs + 0.08
    assert len(search.points) < 80


@pytest.mark.parametrize("seed", range(4))
def test_the_knapsack_packs_the_best_set_for_every_weight(seed: int) -> None:
    costs = made_up(seed, count=9)
    knapsack = Knapsack(costs)
    sets = [
        names
        for count in range(len(costs) + 1)
        for names in itertools.combinations([cost.node for cost in costs], count)
    ]
    each = additive(costs)
    weights = {names: knapsack.weight(names) for names in sets}
    for capacity in (0, 1, 50, 333, 700, knapsack.weight([cost.node for cost in costs])):
        best = max(sum(each[n] for n in names) for names in sets if weights[names] <= capacity)
        found = knapsack.best(capacity)
        assert knapsack.weight(found) <= capacity
        assert sum(each[n] for n in found) == pytest.approx(best)


@pytest.mark.parametrize("seed", range(5))
def test_a_layer_that_costs_far_more_than_estimated_is_found(seed: int) -> None:
    """As a first layer does, whose error all others pass on: within few evaluations."""
    costs = [replace(cost, how="estimated") for cost in made_up(seed)]
    each = additive(costs)
    total = sum(each.values())
    first = min((cost for cost in costs if cost.macs), key=lambda cost: cost.cost).node
    each[first] = 10 * total
    evaluate = summed(each)
    search = Search(costs, evaluate, 1 - total, Clock(12))
    found = search.run()
    assert found is not None and first in found.keep
    assert found.share < 0.6


def test_fitting_anew_until_a_set_does() -> None:
    """What is fitted to other sets does harm: then only sets that are fitted anew will do."""
    costs = made_up(3)
    each, fitted = additive(costs), frozenset[str]()
    wanted = 1 - sum(each.values()) / 10

    def evaluate(keep: frozenset[str]) -> float:
        lost = sum(cost for name, cost in each.items() if name not in keep)
        return 1 - lost - 0.1 * len(keep ^ fitted)

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
    each = additive(costs)
    wanted = 1 - sum(each.values()) / 10
    evaluate = summed(each)
    whole = Search(costs, evaluate, wanted, lambda: False)
    best = whole.run()
    shares = []
    for evaluations in range(1, 40):
        search = Search(costs, evaluate, wanted, Clock(evaluations))
        found = search.run()
        assert len(search.points) <= evaluations + 1
        if found is not None:
            assert found.score >= wanted
            shares.append(found.size)
    assert shares == sorted(shares, reverse=True)
    assert best is not None and shares[-1] == best.size
    assert not Search(costs, evaluate, wanted, Clock(0)).run()


@pytest.mark.parametrize(
    ("effort", "after", "option"),
    [
        (Effort(0), "after 0 evaluations", "--search-evaluations"),
        (Effort(1000, seconds=0), "after 0 s", "--search-seconds"),
    ],
)
def test_an_effort_that_ends_is_said(
    model: Model, costs: list[Cost], effort: Effort, after: str, option: str
) -> None:
    """Only the plain model is judged."""
    with pytest.raises(GateError) as caught:
        meet(rounding(model), costs, least(model, 0.98), effort=effort)
    assert f"none was found {after} ({option})" in caught.value.message
    assert option in caught.value.hint


def test_a_search_that_was_stopped_is_told(model: Model, costs: list[Cost]) -> None:
    """After so many sets, whatever the machine."""

    def within(limit: int) -> Lowered:
        return meet(rounding(model), costs, least(model, 0.995), effort=Effort(limit))

    whole, made = within(1000), within(7)
    assert made.decisions[-1] == (
        "the search for layers to keep in float32 was stopped after 7 evaluations "
        "(--search-evaluations): a smaller set may do"
    )
    assert "; 8 sets tried" in made.decisions[-2]
    assert not any("was stopped" in line for line in whole.decisions)
    assert made.macs_lowered <= whole.macs_lowered


def test_the_report_tells_why_and_what_it_costs(model: Model, costs: list[Cost]) -> None:
    made = meet(rounding(model), costs, least(model, 0.95), effort=Effort(1000))
    lines = list(told(made))
    assert lines[0] == "int8: 6 nodes; 2 more could be, and stayed float32"
    assert made.share == pytest.approx(6 / 7)
    for line, cost in zip(lines[1:], costs, strict=False):
        assert line == (
            f"{cost.node} (MatMul) stays float32: cosine >= 0.95 needs it in float32; lowered "
            f"alone it costs {cost.cost:.2g} of the outputs' cosine; 7.1% of the multiply-adds"
        )
    assert len(lines) == 3


@pytest.mark.slow
def test_a_real_model_in_real_int8() -> None:
    """Speech detection: its encoder's convolutions don't stand int8; which, is found."""
    model, samples = real_model("silero-op15"), real_samples("silero-op15", 4)
    model = Model(plugins.load("passes", "normalize")(model.graph).model)
    ranges = collect(model, samples, few=True)
    judge = Judge(model, list(samples))

    def lower(keep: Collection[str]) -> Lowered:
        return quantize(model, ranges, ONNXRUNTIME_CPU, keep=keep)

    def score(lowered: Lowered) -> float:
        return cosine_of(judge.compare(lowered.model))

    plain = lower(())
    wanted = 1 - (1 - score(plain)) / 10
    costs = measure(lower, model, samples, effort=Effort(1000))
    assert {cost.node for cost in costs} == set(plain.lowered)
    made = meet(lower, costs, Goal(model, samples, min_cosine=wanted), effort=Effort(1000))
    assert score(made) >= wanted
    assert made.lowered
    kept = [item.node for item in made.kept if item.cost is not None]
    assert kept
    for name in kept:
        assert score(lower([other for other in kept if other != name])) < wanted
