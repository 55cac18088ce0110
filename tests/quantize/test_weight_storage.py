"""Weights alone in fewer bits: what is stored, and that graphs compute with just that."""

from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from converter.errors import ModelError, UsageError
from converter.ir.model import Model
from converter.precision.weights import palettes
from converter.precision.weights.forms import Form, as_int4, as_int8, as_palette, block_of, real
from converter.precision.weights.palettes import nearest, palette
from converter.precision.weights.storage import WeightStorage
from converter.runtime.ort import OrtSession
from tests.passes.models import Array, ops, text_model

NET = """
g (float[batch,64,6,6] x, int64[batch,3] ids) => (float[batch,56] y, float[batch,3,40] e) {
  [first] a = Conv <pads=[1,1,1,1]> (x, w1)
  [small] d = Conv <group=48> (a, w2)
  [turned] t = ConvTranspose <strides=[2,2], group=16> (d, w6)
  m = GlobalAveragePool (t)
  f = Flatten (m)
  [product] p = MatMul (f, w3)
  [last] y = Gemm <transB=1> (p, w4)
  [rows] e = Gather (w5, ids)
}"""
SHAPES = {"w1": (48, 64, 3, 3), "w2": (48, 1, 3, 3), "w3": (48, 40), "w4": (56, 40),
          "w5": (100, 40), "w6": (48, 3, 2, 2)}  # fmt: skip
FEEDS = {"ids": np.array([[1, 2, 3], [99, 0, 5]])}


def _numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def net() -> Model:
    weights = {name: _numbers(*shape, seed=len(shape)) / 8 for name, shape in SHAPES.items()}
    model = text_model(NET, **weights)
    for number, node in enumerate(model.nodes()):
        node.name = node.name or f"node_{number}"
    return model


def _sqnr(weight: Array, form: Form) -> float:
    found = real(form, weight.shape)
    assert found.shape == weight.shape and found.dtype == np.float32
    return float(10 * np.log10(np.square(weight).sum() / np.square(weight - found).sum()))


def test_tables_of_few_equal_and_far_values() -> None:
    values = np.array([[3, 1, 1], [2, 3, 1]], np.float32)
    table = palette(values, 4)
    assert table.tolist() == [1, 2, 3]
    assert nearest(values, table).tolist() == [[2, 0, 0], [1, 2, 0]]
    values = _numbers(5000)
    shuffled = np.random.default_rng(1).permutation(values)
    assert np.array_equal(palette(values, 64), palette(shuffled, 64))
    assert palette(values, 64).size == 64
    weight = np.append(_numbers(10_000), [1000, -1000]).astype(np.float32).reshape(2, -1)
    form = as_palette(weight, 0, 4, grouped=False)
    inner = np.abs(weight) < 100
    error = np.square(weight - real(form, weight.shape))[inner].mean()
    assert error < 0.02 and real(form, weight.shape).max() == 1000


@pytest.mark.parametrize(("bits", "best"), [(1, 4.40), (2, 9.30), (4, 20.22), (6, 31.9)])
def test_tables_are_near_the_best_for_normal_numbers(bits: int, best: float) -> None:
    """The decibels of Max's quantizers, "Quantizing for minimum distortion", 1960, table I."""
    weight = _numbers(256, 256)
    assert _sqnr(weight, as_palette(weight, 0, bits, grouped=False)) > best - 0.4


def test_blocks_divide_the_input_channels() -> None:
    sizes = {32: 32, 64: 32, 40: 20, 96: 32, 48: 24, 27: 27, 1: 0, 3: 0, 7: 0, 62: 31, 22: 22}
    assert {channels: block_of(channels) for channels in sizes} == sizes
    assert all(channels % block_of(channels) == 0 for channels in range(8, 2000, 8))


@pytest.mark.parametrize(
    ("shape", "out", "into"),
    [((48, 64, 3, 3), 0, 1), ((64, 40), 1, 0), ((40, 64), 0, 1), ((2, 32, 24), 2, 1)],
)
def test_int4_holds_four_bits_and_stays_near(shape: tuple[int, ...], out: int, into: int) -> None:
    weight = _numbers(*shape)
    form = as_int4(weight, out, into)
    assert form.stored.dtype == np.int8
    assert form.stored.min() >= -8 and form.stored.max() <= 7
    assert form.table.size * block_of(shape[into]) == shape[out] * shape[into]
    assert 19 < _sqnr(weight, form) < 24


def test_a_scale_is_the_blocks_own_and_zeros_stay_zeros() -> None:
    weight = _numbers(4, 64)
    weight[:, 32:] *= 1e-3
    form = as_int4(weight, 0, 1)
    far = real(form, weight.shape)[:, 32:]
    assert np.square(far - weight[:, 32:]).sum() < 0.02 * np.square(weight[:, 32:]).sum()
    weight = np.zeros((16, 64), np.float32)
    for form in (as_int8(weight, 0), as_int4(weight, 0, 1), as_palette(weight, 0, 6, grouped=True)):
        assert not real(form, weight.shape).any()


@pytest.mark.parametrize("out", [0, 1])
def test_a_table_for_each_group_of_output_channels(out: int) -> None:
    weight = _numbers(64, 64)
    size = 10.0 ** np.arange(4).repeat(16)
    weight *= (size[:, None] if out == 0 else size).astype(np.float32)
    grouped = real(as_palette(weight, out, 4, grouped=True), weight.shape)
    single = real(as_palette(weight, out, 4, grouped=False), weight.shape)
    small = (slice(0, 16), slice(None)) if out == 0 else (slice(None), slice(0, 16))
    assert np.square(grouped - weight)[small].mean() < 0.02
    assert np.square(single - weight)[small].mean() > 0.2


FEWER_BITS: list[tuple[str, dict[str, Any]]] = [
    ("int8-weights", {}), ("int4-weights", {}), ("palettized", {}),
    ("palettized", {"bits": 4, "grouped": True}),
]  # fmt: skip


@pytest.mark.parametrize(("precision", "options"), FEWER_BITS)
def test_the_graph_computes_with_what_the_forms_stand_for(
    net: Model, precision: str, options: dict[str, Any]
) -> None:
    made = WeightStorage(net, precision, **options).lower()
    onnx.checker.check_model(onnx_ir.to_proto(made.model.graph), full_check=True)
    assert set(made.lowered) == {"first", "product", "last", "rows"}  # the others are small
    feeds = FEEDS | {"x": _numbers(2, 64, 6, 6)}
    found = OrtSession(made.model.graph, plain=True).run(feeds)
    expected = OrtSession(_with_real(net, made.model), plain=True).run(feeds)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)
    assert not np.allclose(OrtSession(net.graph).run(feeds)["y"], found["y"], atol=1e-6)


def _with_real(net: Model, made: Model) -> onnx_ir.Model:
    """The float model with its weights as the forms stand for them, computed here by hand."""
    graph, stored = net.copy().graph, made.graph.graph.initializers
    for name in ("w1", "w3", "w4", "w5"):
        kind = next(kind for kind in ("int8", "int4", "palette") if f"{name}_{kind}" in stored)
        array, table = (
            np.asarray(stored[f"{name}_{part}"].const_value.numpy()) for part in (kind, "table")
        )
        out = 1 if name == "w3" else 0
        if kind == "int8":
            whole = array * (table if out else table.reshape(-1, *[1] * (array.ndim - 1)))
        elif kind == "int4":
            whole = array * table[:, None]
        else:
            whole = np.stack([row[places] for row, places in zip(table, array, strict=True)])
        shape = SHAPES[name]
        turned = kind != "int8" and out and f"{name}_Transpose" in {n.name for n in made.nodes()}
        whole = whole.reshape(shape[::-1]).T if turned else whole.reshape(shape)
        value = graph.graph.initializers[name]
        value.const_value = onnx_ir.Tensor(np.ascontiguousarray(whole, np.float32), name=name)
    return graph


def test_int4_without_a_block_is_int8_and_told() -> None:
    text = "g (float[n,7] x, float[7,400] w) => (float[n,400] y) { [only] y = MatMul (x, w) }"
    model = text_model(text, w=_numbers(7, 400))
    made = WeightStorage(model, "int4-weights").lower()
    assert made.decisions[0] == "1 weights are int8: no 8 to 32 divide their input channels"
    assert "w_int8" in made.model.graph.graph.initializers


def test_what_is_asked_for_stays(net: Model) -> None:
    storage = WeightStorage(net, "int8-weights")
    made = storage.lower({"first"})
    assert [(item.node, item.reason) for item in made.kept] == [("first", "asked for")]
    assert "w1" in made.model.graph.graph.initializers and made.share < 0.1
    assert storage.lower().share > 0.9
    with pytest.raises(UsageError):
        storage.lower({"nothing"})


def test_a_shared_weight_is_stored_once() -> None:
    model = text_model(
        """g (float[batch,40] x, float[40,40] w) => (float[batch,40] y)
        { [one] a = MatMul (x, w) [two] y = MatMul (a, w) }""",
        w=_numbers(40, 40),
    )
    made = WeightStorage(model, "int4-weights").lower().model
    assert ops(made)["DequantizeLinear"] == 1
    assert "w" not in made.graph.graph.initializers


def test_a_model_without_weights_is_refused() -> None:
    model = text_model("g (float[batch,4] x) => (float[batch,4] y) { y = Relu (x) }")
    with pytest.raises(ModelError, match="has none of 1024 elements"):
        WeightStorage(model, "palettized")


def test_many_weights_are_put_into_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of many numbers is as good as that of sorted ones; each finds its nearest entry."""
    rng = np.random.default_rng(0)
    weights = np.append(rng.standard_normal(100_000) / 50, [-3, 2, 0, 0]).astype(np.float32)
    counts = rng.uniform(0.1, 1, weights.size).astype(np.float32)
    errors = []
    for many in (weights.size + 1, weights.size - 1):
        monkeypatch.setattr(palettes, "MANY", many)
        monkeypatch.setattr(palettes, "LOOKED_UP", many)
        table = palettes.palette(weights, 64, counts)
        places = palettes.nearest(weights, table)
        distances = np.abs(weights[:, None].astype(np.float64) - table)
        assert np.array_equal(distances[np.arange(weights.size), places], distances.min(axis=1))
        errors.append((counts * (table[places] - weights) ** 2).sum())
    assert errors[0] != errors[1] < 1.002 * errors[0]
    few = np.repeat(np.float32([1.5, -2.5, 1.5000001]), 50_000)
    assert palettes.palette(few, 3).tolist() == sorted(set(few.tolist()))
