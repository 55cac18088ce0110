"""Weights alone within a budget, beside float16, and of recurrent operators."""

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.errors import GateError
from converter.ir.model import Model
from converter.precision.budget.budget import met_at_once
from converter.precision.budget.effort import Effort
from converter.precision.budget.goal import Goal
from converter.precision.budget.sensitivity import Judge, cosine_of
from converter.precision.budget.weights import WeightBudget
from converter.precision.fp16.half import to_half
from converter.precision.quantized import Quantized
from converter.precision.summary import summary
from converter.precision.weights.forms import Array
from converter.precision.weights.storage import PLAIN, WIDE, WeightStorage
from tests.passes.models import ListedSamples, run, text_model
from tests.quantize.small import with_weights

CHAIN = """
g (float[batch,40] x) => (float[batch,40] y) {
  [fc0] a0 = MatMul (x, w0) [n0] t0 = Tanh (a0) [fc1] a1 = MatMul (t0, w1) [n1] t1 = Tanh (a1)
  [fc2] a2 = MatMul (t1, w2) [n2] t2 = Tanh (a2) [fc3] y = MatMul (t2, w3) }"""


def _chain(**outliers: float) -> Model:
    """Four products; a weight of each column of those named is so much larger than the others."""
    draw, weights = np.random.default_rng(0), {}
    for name in ("w0", "w1", "w2", "w3"):
        weights[name] = (draw.standard_normal((40, 40)) / 6).astype(np.float32)
        weights[name][::20] *= outliers.get(name, 1.0)
    return text_model(CHAIN, **weights)


def _samples(count: int = 8) -> ListedSamples:
    found = np.random.default_rng(1).standard_normal((count, 4, 40)).astype(np.float32)
    found[..., ::20] = 0  # what outliers are multiplied with: only their steps matter
    return ListedSamples([{"x": x} for x in found])


def _met(model: Model, cosine: float, evaluations: int = 1000) -> Quantized:
    goal, effort = Goal(model, _samples(), min_cosine=cosine), Effort(evaluations)
    storage = WeightStorage(model, "int4-weights")
    return WeightBudget(storage, model, _samples(), (), effort=effort).meet(goal)


def _kept(model: Model, lowered: Quantized) -> float:
    """The cosine that is kept."""
    return cosine_of(Judge(model, list(_samples())).compare(lowered.model))


def test_only_what_needs_it_has_eight_bits() -> None:
    goal = Goal(_chain(), _samples(), min_cosine=0.97)
    made = _met(_chain(), 0.97)
    assert not made.kept and made.decisions[-1] == met_at_once(goal, goal.score(made))
    model = _chain(w0=40.0)
    assert _kept(model, WeightStorage(model, "int4-weights").lower()) < 0.9
    made = _met(model, 0.97)
    assert _kept(model, made) >= 0.97
    assert [(item.node, item.instead) for item in made.kept] == [("fc0", WIDE)]
    assert made.lowered == ["fc1", "fc2", "fc3"] and made.share == pytest.approx(0.75)
    lines = [*made.decisions, *summary(made)]
    assert any("1 layer (25.0% of the weights) with eight bits" in line for line in lines)
    assert any(line.startswith("fc0 (MatMul) has int8 weights: cosine >= 0.97") for line in lines)


def test_what_eight_bits_are_too_few_for_stays() -> None:
    model = _chain(w0=4000.0, w2=30.0)
    everything = {"fc0", "fc1", "fc2", "fc3"}
    assert _kept(model, WeightStorage(model, "int4-weights").lower((), everything)) < 0.9
    made = _met(model, 0.97)
    assert _kept(model, made) >= 0.97
    ways = {item.node: item.instead for item in made.kept}
    assert ways["fc0"] == "" and ways.get("fc2") == WIDE and "fc1" not in ways
    assert made.model.graph.graph.initializers["w0"].dtype == onnx_ir.DataType.FLOAT
    assert any("fc0 (MatMul) stays float32: cosine >= " in line for line in summary(made))


def test_an_effort_that_ends_leaves_eight_bits_for_all() -> None:
    model = _chain(w0=40.0)
    made = _met(model, 0.97, evaluations=0)
    assert {item.node for item in made.kept} >= {"fc0"}
    assert all(item.instead == WIDE for item in made.kept)
    assert _kept(model, made) >= 0.97


def test_a_budget_that_nothing_meets_is_refused_with_costs() -> None:
    with pytest.raises(GateError, match="is not met: no") as caught:
        _met(_chain(w3=4000.0, w1=4000.0, w0=4000.0, w2=4000.0), 1.0)
    assert any("million weights" in line for line in caught.value.details)


@pytest.mark.parametrize(
    ("precision", "kind"), [("int4-weights", "int4"), ("palettized", "palette")]
)
def test_float16_beside_fewer_bits(precision: str, kind: str) -> None:
    model = _chain()
    half = to_half(model, None, keep=["fc2"])
    storage = WeightStorage(model, precision, half=half)
    made = storage.lower({"fc3"}, {"fc1"})
    onnx.checker.check_model(onnx_ir.to_proto(made.model.graph), full_check=True)
    constants = made.model.graph.graph.initializers
    assert made.precision == f"fp16+{precision}"
    types = {name: constants[f"{name}_table"].dtype.name for name in ("w0", "w1", "w2")}
    assert types == {"w0": "FLOAT16", "w1": "FLOAT16", "w2": "FLOAT"}
    assert f"w0_{kind}" in constants and "w1_int8" in constants
    assert {item.node: item.instead for item in made.kept if item.node in ("fc1", "fc3")} == {
        "fc1": WIDE,
        "fc3": PLAIN,
    }
    plain = WeightStorage(model, precision).lower({"fc3"}, {"fc1"})
    beside, alone = _kept(model, made), _kept(model, plain)
    assert abs(beside - alone) < 1e-3 and beside > 0.97


LSTM = """
g (float[7,batch,40] x) => (float[7,2,batch,24] y)
{ [cell] y = LSTM <hidden_size=24, direction="bidirectional"> (x, w, r, b) }"""


PACKED = {"int8": 8, "int4": 4, "palette": 6}
"""Bits of each number, where a target packs them."""


@pytest.mark.parametrize(
    ("precision", "grouped", "bits"),
    [("int8-weights", False, 9.1), ("int4-weights", False, 5.7), ("palettized", True, 6.9)],
)
def test_recurrent_weights(precision: str, grouped: bool, bits: float) -> None:
    model = with_weights(LSTM, 1.0, w=(2, 96, 40), r=(2, 96, 24), b=(2, 192))
    storage = WeightStorage(model, precision, grouped=grouped)
    made = storage.lower()
    assert made.lowered == ["cell"] and storage.numbers("cell") == 2 * 96 * 64
    stored = made.model.graph.graph.initializers
    assert not {"w", "r"} & set(stored) and stored["b"].dtype == onnx_ir.DataType.FLOAT
    expected, taken = model.copy(), 0
    for (_, index), weight in storage.weights.items():
        form = storage.settled("cell", index, storage.kind, fitted=False)
        taken += form.stored.size * PACKED[form.kind] + form.table.nbytes * 8
        array = _real(form.kind, form.stored, form.table).reshape(weight.shape)
        name = weight.value.name or ""
        expected.graph.graph.initializers[name].const_value = onnx_ir.Tensor(array, name=name)
    feeds = {"x": np.random.default_rng(0).standard_normal((7, 3, 40)).astype(np.float32)}
    found, wanted = (run(item, feeds)["y"] for item in (made.model, expected))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert taken / storage.numbers("cell") < bits


def _real(kind: str, stored: Array, table: Array) -> Array:
    if kind == "palette":
        return np.stack([row[places] for row, places in zip(table, stored, strict=True)])
    return (stored.astype(np.float32) * table[:, None]).astype(np.float32)
