"""What each layer costs: ranked rightly, honestly labelled, on time, the same each time."""

import threading
import time
from collections.abc import Collection, Iterator

import numpy as np
import onnx_ir
import pytest

from converter.ir.model import Model
from converter.precision.budget.candidates import Beside
from converter.precision.budget.effort import Effort
from converter.precision.budget.estimate import own_noise
from converter.precision.budget.sensitivity import BROKEN, Judge, cosine_of, measure, spread
from converter.precision.calibrate.ranges import collect
from converter.precision.fp16.half import to_half
from converter.precision.int8.insert import quantize
from converter.precision.int8.scheme import ONNXRUNTIME_CPU, Scheme
from converter.precision.quantized import Quantized
from converter.samples import Sample
from converter.samples.base import sizes_in
from emitters.tensorrt.scheme import TENSORRT
from tests.passes.models import text_model
from tests.quantize.fake import OUTLIERS, WIDE, WIDTH, noises, rounding


def test_a_cost_is_the_cosine_lost_by_that_layer_alone_and_outliers_cost_most(model: Model) -> None:
    costs = measure(rounding(model), model, noises(), effort=Effort(1000))
    assert {cost.node for cost in costs[:2]} == OUTLIERS
    assert len(costs) == 8
    assert costs[1].cost > 10 * costs[2].cost > 0
    assert all(cost.how == "alone" and cost.op == "MatMul" for cost in costs)
    assert all(cost.sqnr_db is not None for cost in costs)
    assert costs == measure(rounding(model), model, noises(), effort=Effort(1000))
    macs = {cost.node: cost.macs for cost in costs}
    assert macs[f"fc{WIDE}"] == 4 * WIDTH * WIDTH == 4 * macs["fc0"]
    lower, samples = rounding(model), noises(5)
    costs = {cost.node: cost for cost in measure(lower, model, samples, effort=Effort(1000))}
    others = [f"fc{i}" for i in range(8) if i != 5]
    comparison = Judge(model, list(samples)).compare(lower(others).model)
    assert costs["fc5"].cost == pytest.approx(1 - cosine_of(comparison), abs=1e-12)


@pytest.mark.parametrize("evaluations", [5, 1000])
def test_layers_cost_side_by_side_what_they_cost_one_by_one(model: Model, evaluations: int) -> None:
    samples = noises()
    ranges = collect(model, samples, few=True)
    ways = [
        measure(lambda keep: quantize(model, ranges, ONNXRUNTIME_CPU, keep=keep), model, samples,
                effort=Effort(evaluations), beside=beside)
        for beside in (Beside(1, 2), Beside(1, 1), Beside(2, 1), Beside(3, 2))
    ]  # fmt: skip
    assert all(way == ways[0] for way in ways)
    measured = min(evaluations, len(ways[0]))
    assert [cost.how for cost in ways[0]].count("estimated") == len(ways[0]) - measured


def test_candidates_run_side_by_side_and_come_in_their_order() -> None:
    together, taken = threading.Barrier(2), []

    def items() -> Iterator[int]:
        for item in range(6):
            taken.append(item)
            yield item

    def evaluate(item: int) -> int:
        together.wait(60)
        return item * item

    found = Beside(2, 1).each(evaluate, items())
    assert next(found) == 0 and len(taken) <= 3, "no more is begun than there is room for"
    assert list(found) == [1, 4, 9, 16, 25]
    with pytest.raises(ZeroDivisionError):
        list(Beside(2, 1).each(lambda item: 1 // (2 - item), range(6)))
    assert Beside.of(text_model("g (float[2] x) => (float[2] y) { y = Abs(x) }")).workers >= 1


def test_free_sizes_are_those_of_the_sample() -> None:
    model = text_model("g (float[batch,n,3] x, float[m] w) => (float[batch,n,3] y) { y = Abs(x) }")
    x = np.zeros((2, 5, 3), np.float32)
    assert sizes_in(model, Sample("it", {"x": x})) == {"batch": 2, "n": 5}


@pytest.mark.parametrize("evaluations", [0, 1000])
def test_float16_costs_next_to_nothing(model: Model, evaluations: int) -> None:
    """Layers cut out of a real float16 model, whose inner tensors have another type."""
    samples = noises()
    ranges = collect(model, samples, few=True)
    costs = measure(lambda keep: to_half(model, ranges, keep=keep), model, samples,
                    effort=Effort(evaluations))  # fmt: skip
    assert {cost.node for cost in costs} >= {f"fc{i}" for i in range(8)}
    matrices = [cost.cost for cost in costs if cost.op == "MatMul"]
    assert 0 < max(matrices) < 1e-4
    assert sum(cost > 0 for cost in matrices) > 4


@pytest.mark.parametrize("scheme", [ONNXRUNTIME_CPU, TENSORRT])
def test_layers_are_cut_out_of_real_int8_models(model: Model, scheme: Scheme) -> None:
    """Per channel, the outlier spoils one output of its layer; the estimate sees every layer."""
    samples = noises()
    ranges = collect(model, samples, few=True)
    plain = quantize(model, ranges, scheme)
    found = own_noise(model, plain.model, plain.lowered, list(samples)[:2])
    assert set(found) == set(plain.lowered)
    assert all(1e-7 < found[f"fc{i}"] < 0.1 for i in range(8))


def test_with_little_effort_costs_are_estimates_that_still_find_the_worst(model: Model) -> None:
    began = time.monotonic()
    costs = measure(rounding(model), model, noises(), effort=Effort(0))
    assert time.monotonic() - began < 5
    assert {cost.how for cost in costs} == {"estimated"}
    assert {cost.node for cost in costs[:2]} == OUTLIERS
    assert costs[1].cost > 10 * costs[2].cost
    costs = measure(rounding(model), model, noises(), effort=Effort(3))
    ways = [cost.how for cost in costs]
    assert ways.count("alone") == 3 and ways.count("estimated") == len(costs) - 3
    worst = max(cost.cost for cost in costs if cost.how == "alone")
    assert max(cost.cost for cost in costs if cost.how == "estimated") < worst / 20
    assert {c.node for c in costs if c.how == "alone"} >= OUTLIERS  # the worst come first


def test_a_layer_only_lowered_among_others_is_measured_by_taking_it_back(model: Model) -> None:
    """As a scheme does that quantizes an Add between quantized neighbours only."""
    plain = rounding(model)

    def lower(keep: Collection[str]) -> Quantized:
        alone = "fc1" in keep and "fc3" in keep
        return plain({*keep, "fc2"} if alone else keep)

    costs = {cost.node: cost for cost in measure(lower, model, noises(), effort=Effort(1000))}
    assert costs["fc2"].how == "back"
    assert costs["fc2"].cost > 10 * costs["fc0"].cost
    assert costs["fc5"].how == "alone"


def test_a_layer_that_makes_nan_costs_more_than_any_cosine(model: Model) -> None:
    plain = rounding(model)

    def lower(keep: Collection[str]) -> Quantized:
        made = plain(keep)
        if "fc4" not in keep:
            weight = next(n for n in made.model.graph.graph if n.name == "fc4").inputs[1]
            assert weight is not None and weight.const_value is not None
            broken = np.full(tuple(weight.const_value.shape), np.nan, np.float32)
            weight.const_value = onnx_ir.tensor(broken, name=weight.name)
        return made

    costs = measure(lower, model, noises(), effort=Effort(1000))
    assert (costs[0].node, costs[0].cost) == ("fc4", BROKEN)
    assert costs[1].cost < BROKEN


def test_integer_outputs_are_judged_by_how_many_are_equal() -> None:
    text = "m (float[batch,24] x) => (int64[batch,1] k) {{ [node] k = {} <axis = 1> (x) }}"
    model, other = text_model(text.format("ArgMax")), text_model(text.format("ArgMin"))
    judge = Judge(model, list(noises(4)))
    assert cosine_of(judge.compare(model)) == 1
    assert cosine_of(judge.compare(other)) == 0


@pytest.mark.parametrize(("count", "names"), [(3, "s0 s5 s11"), (1, "s0"), (40, None)])
def test_samples_are_spread_evenly(count: int, names: str | None) -> None:
    found = [sample.name for sample in spread(noises(12), count)]
    assert found == (names.split() if names else [f"s{i}" for i in range(12)])
