"""Forms of weights fitted to what the weights are multiplied with."""

from typing import Any

import numpy as np
import pytest

from converter.ir.model import Model
from converter.precision.budget.effort import Effort
from converter.precision.budget.sensitivity import Judge, cosine_of
from converter.precision.layers import Layer, layers
from converter.precision.weights.fitting import Seen, refit
from converter.precision.weights.forms import Array, Form, as_int4, real
from converter.precision.weights.learning import learn
from converter.precision.weights.palettes import nearest, palette
from converter.precision.weights.storage import WeightStorage
from tests.passes.models import ListedSamples
from tests.quantize.small import correlated, with_weights

NET = """
g (float[batch,32,6,6] x) => (float[batch,40] y) {
  [whole] a = Conv <pads=[1,1,1,1]> (x, w1, b1)
  r = Relu (a)
  [grouped] c = Conv <group=3> (r, w2)
  m = GlobalAveragePool (c)
  f = Flatten (m)
  [product] p = MatMul (f, w3)
  s = Add (p, b3)
  [last] y = Gemm <transB=1, alpha=0.5> (s, w4)
}"""
SHAPES = {"w1": (48, 32, 3, 3), "b1": (48,), "w2": (96, 16, 3, 3), "w3": (96, 64), "b3": (64,),
          "w4": (40, 64)}  # fmt: skip


@pytest.fixture(scope="module")
def net() -> Model:
    return with_weights(NET, 1.0, **SHAPES)


def samples(count: int = 40, seed: int = 0) -> ListedSamples:
    return correlated({"x": (1, 32, 6, 6)}, count, seed)


@pytest.fixture(scope="module")
def said(net: Model) -> dict[str, Seen]:
    """What seeded inputs with few directions say, for every layer."""
    found = {}
    for layer in layers(net.graph.graph):
        draw = np.random.default_rng(len(layer.name))
        if layer.op == "Conv":
            mixes = draw.standard_normal((layer.shape[1] * layer.groups, 4))
            values = [np.abs(np.einsum("cm,bmhw->bchw", mixes, draw.standard_normal((1, 4, 6, 6))))]
        else:
            values = [draw.standard_normal((300, 5)) @ draw.standard_normal((5, layer.inputs)) + 1]
            values[0] += 0.1 * draw.standard_normal(values[0].shape)
        values = [value.astype(np.float32) for value in values * 8]
        found[layer.name] = Seen.of(layer, values, whole=True)
    return found


def _lost(layer: Layer, covariance: Array, form: Form) -> float:
    """The mean square of what the layer's outputs lose."""
    error = layer.matrices(np.asarray(layer.weight.const_value.numpy()) - real(form, layer.shape))
    return float(np.einsum("goi,gij,goj->", error, covariance, error))


def test_a_table_is_for_the_numbers_that_count() -> None:
    draw = np.random.default_rng(0)
    values = draw.standard_normal(4000).astype(np.float32)
    counts = np.where(values > 1, 100.0, 1.0).astype(np.float32)

    def error(table: Array) -> float:
        return float((counts * (table[nearest(values, table)] - values) ** 2).sum())

    assert error(palette(values, 8, counts)) < 0.5 * error(palette(values, 8))
    assert np.array_equal(palette(values, 8, np.ones_like(values)), palette(values, 8))


def test_scales_are_for_the_numbers_that_count() -> None:
    weight = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    weight[:, 0] = 8
    counts = np.ones_like(weight)
    counts[:, 0] = 1e-3

    def error(form: Form) -> float:
        return float((counts * (real(form, weight.shape) - weight) ** 2).sum())

    assert error(as_int4(weight, 0, 1, counts)) < 0.6 * error(as_int4(weight, 0, 1))


def test_float16_scales_are_what_weights_are_rounded_by() -> None:
    weight = (np.random.default_rng(0).standard_normal((16, 32)) * 1e-4).astype(np.float32)
    form = as_int4(weight, 0, 1, dtype=np.float16)
    assert form.table.dtype == np.float16 and (form.table > 0).all()
    error = np.square(real(form, weight.shape) - weight).sum() / np.square(weight).sum()
    assert error < 0.012  # 19 dB, as with scales of float32


@pytest.mark.parametrize("name", ["whole", "grouped", "product", "last"])
@pytest.mark.parametrize(("precision", "options", "share"), [
    ("int8-weights", {}, 0.7),
    ("int4-weights", {}, 0.7),
    ("palettized", {"bits": 4}, 0.7),
    ("palettized", {"bits": 3 + 1, "grouped": True}, 0.8),
    ("palettized", {"bits": 2}, 0.8),
])  # fmt: skip
def test_less_of_the_outputs_is_lost(
    net: Model, said: dict[str, Seen], name: str, precision: str, options: Any, share: float
) -> None:
    storage, seen = WeightStorage(net, precision, **options), said[name]
    assert seen.covariance is not None
    plain = storage.settled(name, 1, storage.kind, fitted=False)
    fitted = refit(storage.form(name, storage.weights[name, 1], storage.kind, seen.counts), seen)
    assert fitted.stored.dtype == plain.stored.dtype and fitted.stored.shape == plain.stored.shape
    limit = {"int8": 127, "int4": 7, "palette": fitted.table.shape[-1] - 1}[fitted.kind]
    assert fitted.stored.max() <= limit and int(fitted.stored.min()) >= -limit - 1
    before, after = (_lost(seen.layer, seen.covariance, form) for form in (plain, fitted))
    assert after < share * before


@pytest.mark.parametrize("name", ["whole", "product", "last"])
def test_biases_keep_the_means(net: Model, said: dict[str, Seen], name: str) -> None:
    seen = said[name]
    form = WeightStorage(net, "int4-weights").settled(name, 1, "int4", fitted=False)
    change = seen.bias_change(real(form, seen.layer.shape))
    assert change is not None
    weight = np.asarray(seen.layer.weight.const_value.numpy())
    lost = seen.layer.matrices(weight - real(form, weight.shape))[0] @ seen.mean[0]
    np.testing.assert_allclose(change, lost * seen.layer.alpha, rtol=1e-4, atol=1e-6)
    assert np.abs(change).max() > 1e-3


def test_too_few_rows_leave_a_form_as_it_is(net: Model) -> None:
    (layer,) = (layer for layer in layers(net.graph.graph) if layer.name == "product")
    rows = [np.random.default_rng(0).standard_normal((3, 96)).astype(np.float32)]
    seen = Seen.of(layer, rows, whole=True)
    assert seen.covariance is None and seen.counts is None
    form = WeightStorage(net, "int4-weights").settled("product", 1, "int4", fitted=False)
    assert refit(form, seen) is form


@pytest.mark.parametrize(
    ("precision", "options"), [("int4-weights", {}), ("palettized", {"bits": 4, "grouped": True})]
)
def test_a_fitted_model_is_closer_on_other_samples(
    net: Model, precision: str, options: dict[str, Any]
) -> None:
    storage = WeightStorage(net, precision, **options)
    judge = Judge(net, list(samples(seed=1)))
    before = 1 - cosine_of(judge.compare(storage.lower().model))
    learn(storage, net, samples(), ("rounding", "bias"), effort=Effort(1000))
    made = storage.lower()
    assert 1 - cosine_of(judge.compare(made.model)) < 0.6 * before
    assert made.decisions[0].startswith("GPTQ rounding and bias correction of weights")


def test_methods_that_arent_asked_for_or_have_no_time_arent_used(net: Model) -> None:
    storage = WeightStorage(net, "int4-weights")
    learn(storage, net, samples(), ("none",), effort=Effort(1000))
    assert not storage.learnt and not storage.changes and not storage.decisions
    learn(storage, net, samples(12), ("bias",), effort=Effort(1000))
    assert not storage.learnt and storage.changes
    storage = WeightStorage(net, "int4-weights")
    learn(storage, net, samples(12), ("rounding",), effort=Effort(1000, seconds=0))
    assert not storage.learnt
