"""Float16 constants, int8 weights beside float32 activations, integers at the borders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.check.feeding import Fed
from converter.errors import UnsupportedError
from converter.ir import Model
from converter.ort import OrtSession
from converter.quantize.int8_lowering import Int8
from converter.quantize.ranges import collect
from converter.quantize.scheme import SCHEMES
from converter.quantize.weight_only import quantize_weights
from converter.recipe import make_request
from emitters.tflite.emitter import TfliteEmitter
from emitters.tflite.graph import DataType, Operator
from emitters.tflite.lowering import lower
from emitters.tflite.session import open_file
from tests.passes.models import ListedSamples
from tests.tflite_emitter.running import (
    REQUEST,
    agree,
    emitted,
    int8_of,
    kinds,
    numbers,
    operators,
    parsed,
    run_file,
    with_weights,
)

NET = """
g (float[batch,8,6,6] x, float[64,8,3,3] w1, float[64] b1, float[64,1,5,5] w2, float[64] b2,
   float[64,32] w3, float[32] b3, float[32,40] w4) => (float[batch,40] y)
{
  a = Conv <pads=[1,1,1,1]> (x, w1, b1)
  r = Relu (a)
  d = Conv <pads=[2,2,2,2], group=64> (r, w2, b2)
  m = GlobalAveragePool (d)
  f = Flatten (m)
  p = MatMul (f, w3)
  s = Add (p, b3)
  t = Relu (s)
  y = Gemm (t, w4)
}"""


def _net(dtype: str = "float32") -> Model:
    shapes = {
        "w1": (64, 8, 3, 3), "b1": (64,), "w2": (64, 1, 5, 5), "b2": (64,), "w3": (64, 32),
        "b3": (32,), "w4": (32, 40),
    }  # fmt: skip
    weights = {
        name: (numbers(*shape, seed=seed) / 4).astype(dtype)
        for seed, (name, shape) in enumerate(shapes.items())
    }
    text = NET if dtype == "float32" else NET.replace("float[", f"{dtype}[")
    return with_weights(parsed(text), **weights)


def _int8(model: Model, name: str = "x", shape: tuple[int, ...] = (1, 8, 6, 6)) -> Model:
    return int8_of(model, [{name: numbers(*shape, seed=seed)} for seed in range(8)])


def _weights(made: list[Operator]) -> dict[str, DataType]:
    """The types of weights by operator."""
    ops = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    return {op.op: op.inputs[1].dtype for op in made if op.op in ops and op.inputs[1] is not None}


# -- float16 -----------------------------------------------------------------------------


def test_a_float16_model_is_stored_in_half_the_bytes(tmp_path: Path) -> None:
    small, large = _net("float16"), _net()
    ratio = (
        emitted(small, tmp_path / "16").stat().st_size
        / emitted(large, tmp_path / "32").stat().st_size
    )
    assert ratio < 0.6
    assert set(kinds(small)) - set(kinds(large)) == {"DEQUANTIZE", "CAST"}
    halves = [op.inputs[0] for op in operators(small) if op.op == "DEQUANTIZE"]
    assert sum(half is not None and half.is_constant for half in halves) == 4


@pytest.mark.parametrize("xnnpack", [False, True])
def test_float16_inputs_and_outputs(tmp_path: Path, xnnpack: bool) -> None:
    model = _net("float16")
    feeds = {"x": numbers(2, 8, 6, 6).astype(np.float16)}
    found = run_file(emitted(model, tmp_path), feeds, xnnpack=xnnpack)["y"]
    expected = OrtSession(_net().graph).run({"x": feeds["x"].astype(np.float32)})["y"]
    assert found.dtype == np.float16
    assert np.abs(found - expected).max() < 4e-3 * np.abs(expected).max()


def test_only_what_float16_holds_is_float16() -> None:
    text = (
        "g (float16[4,64] x, float16[64,32] w) => (float16[4,32] y) { y = Gemm <alpha=0.3> (x, w) }"
    )
    model = with_weights(parsed(text), w=numbers(64, 32).astype(np.float16))
    assert _weights(operators(model))["FULLY_CONNECTED"] == DataType.FLOAT
    assert "DEQUANTIZE" not in kinds(model)[1:]


# -- int8 weights alone --------------------------------------------------------------------


def test_int8_weights_beside_float32_activations(tmp_path: Path) -> None:
    model = _net()
    made = quantize_weights(model, SCHEMES["tflite-int8"])
    assert len(made.lowered) == 4 and made.share == 1.0
    written = lower(made.model, hybrid=True).model.subgraphs[0].operators
    assert set(_weights(written).values()) == {DataType.INT8}
    feeds = {"x": numbers(2, 8, 6, 6)}
    expected = OrtSession(model.graph).run(feeds)["y"]
    path = emitted(made.model, tmp_path, "int8-dynamic")
    assert path.stat().st_size < 0.5 * emitted(model, tmp_path / "32").stat().st_size
    for xnnpack in (False, True):
        found = run_file(path, feeds, xnnpack=xnnpack)["y"]
        assert 0 < np.abs(found - expected).max() < 0.03 * np.abs(expected).max()


def test_its_scales_are_the_graphs() -> None:
    made = quantize_weights(_net(), SCHEMES["tflite-int8"]).model
    scales = {
        value.name: np.asarray(value.const_value.numpy())
        for value in made.initializers()
        if value.const_value is not None and "scale" in (value.name or "")
    }
    written = lower(made, hybrid=True).model.subgraphs[0].operators
    conv = next(op for op in written if op.op == "CONV_2D").inputs[1]
    assert conv is not None and conv.quant is not None and conv.quant.axis == 0
    np.testing.assert_allclose(conv.quant.scale, scales["Conv_0_weight_scale"], rtol=1e-6)


def test_what_is_kept_has_float32_weights() -> None:
    made = quantize_weights(_net(), SCHEMES["tflite-int8"], {"Conv_0"})
    assert [item.reason for item in made.kept] == ["asked for"]
    written = _weights(lower(made.model, hybrid=True).model.subgraphs[0].operators)
    assert written["CONV_2D"] == DataType.FLOAT
    assert written["DEPTHWISE_CONV_2D"] == DataType.INT8


def test_what_a_budget_takes_out_keeps_int8_weights(tmp_path: Path) -> None:
    """Its inputs and outputs are float32 then; what the user asked for stays float32 wholly."""
    model = _net()
    feeds = [{"x": numbers(1, 8, 6, 6, seed=seed)} for seed in range(8)]
    samples = ListedSamples(feeds)
    ranges = collect(model, samples, few=True)
    scheme = SCHEMES["tflite-int8"]
    ways = Int8(model, ranges, scheme, samples, keep=["Gemm_8"], methods=["none"])
    made = ways.lower(["Conv_0"])
    assert "Conv_0" in made.lowered and "Gemm_8" not in made.lowered
    said = {item.node: item.instead for item in made.kept}
    assert "as it runs" in said["Conv_0"] and not said["Gemm_8"]
    assert made.computed is made.judged, "it is judged as the kernel rounds"
    assert not any("judged" in (node.name or "") for node in made.model.nodes())
    whole, graph, kernel = (
        OrtSession(each.graph, plain=True).run(feeds[0])["y"]
        for each in (model, made.model, made.computed)
    )
    assert not np.array_equal(graph, kernel)
    assert np.abs(kernel - whole).max() < 0.05 * np.abs(whole).max()
    path = emitted(made.model, tmp_path, "int8")
    written = lower(made.model, hybrid=True).model.subgraphs[0].operators
    first = next(op for op in written if op.op == "CONV_2D")
    last = [op for op in written if op.op == "FULLY_CONNECTED"][-1]
    assert first.inputs[0] is not None and first.inputs[0].dtype == DataType.FLOAT
    assert _weights([first])["CONV_2D"] == DataType.INT8
    assert _weights([last])["FULLY_CONNECTED"] == DataType.FLOAT
    expected = OrtSession(model.graph).run(feeds[0])["y"]
    for xnnpack in (False, True):
        found = run_file(path, feeds[0], xnnpack=xnnpack)["y"]
        assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_float32_artifacts_have_no_integers() -> None:
    made = quantize_weights(_net(), SCHEMES["tflite-int8"]).model
    assert set(_weights(operators(made)).values()) == {DataType.FLOAT}


# -- int8 ----------------------------------------------------------------------------------


def test_a_bias_behind_a_matrix_is_part_of_its_operator() -> None:
    names = kinds(_int8(_net()))
    assert names.count("FULLY_CONNECTED") == 2 and "ADD" not in names
    assert names.count("QUANTIZE") == names.count("DEQUANTIZE") == 1


def test_a_bias_behind_a_float_matrix_too(tmp_path: Path) -> None:
    assert kinds(_net()).count("ADD") == 0
    agree(_net(), {"x": numbers(3, 8, 6, 6)}, tmp_path, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_integers_at_the_borders(tmp_path: Path, dtype: str) -> None:
    model = _int8(_net())
    request = make_request({"source": "m.onnx", "precision": ["int8"], "io_dtype": dtype})
    path = TfliteEmitter().emit(model, tmp_path, "int8", request).path
    feeds = {"x": numbers(2, 8, 6, 6, seed=3)}
    expected = run_file(emitted(model, tmp_path / "float"), feeds)["y"]
    for xnnpack in (False, True):
        session = open_file(path, REQUEST, xnnpack=xnnpack)
        (x,), (y,) = session.inputs, session.outputs
        assert x.dtype == y.dtype == dtype and x.scale and y.scale
        fed = Fed(session, real=True)
        assert fed.inputs[0].dtype == fed.outputs[0].dtype == "float32"
        assert np.abs(fed.run(feeds)["y"] - expected).max() <= 2.001 * y.scale
        session.close()


def test_borders_that_are_float_are_refused(tmp_path: Path) -> None:
    text = (
        "g (float[batch,8] x, float[8,4] w) => (float[batch,4] y) { a = Sin(x)\n y = MatMul(a, w) }"
    )
    model = _int8(with_weights(parsed(text), w=numbers(8, 4)), shape=(1, 8))
    request = make_request({"source": "m.onnx", "precision": ["int8"], "io_dtype": "int8"})
    with pytest.raises(UnsupportedError) as caught:
        TfliteEmitter().emit(model, tmp_path, "int8", request)
    assert [item.node for item in caught.value.items] == ["x"]


def test_moved_integers_have_the_scale_of_what_computes() -> None:
    text = """
    g (int8[2,3,4] x, int8[12,5] w) => (float[2,5] y) {
      s = Constant <value = float {0.5}> ()
      z = Constant <value = int8 {3}> ()
      t = Constant <value = float {0.25}> ()
      n = Constant <value = int8 {0}> ()
      shape = Constant <value = int64[2] {2, 12}> ()
      a = Reshape (x, shape)
      b = DequantizeLinear (a, s, z)
      v = DequantizeLinear (w, t, n)
      m = MatMul (b, v)
      q = QuantizeLinear (m, s, z)
      y = DequantizeLinear (q, s, z)
    }"""
    weights = np.random.default_rng(0).integers(-9, 9, (12, 5)).astype(np.int8)
    made = lower(with_weights(parsed(text), w=weights)).model
    quant = made.inputs["x"].quant
    assert quant is not None and quant.scale[0] == 0.5 and quant.zero_point[0] == 3
    assert [op.op for op in made.subgraphs[0].operators][-2:] == ["FULLY_CONNECTED", "DEQUANTIZE"]


# -- the file ------------------------------------------------------------------------------


def test_free_dimensions_keep_their_names(tmp_path: Path) -> None:
    model = parsed("g (float[batch,time,4] x) => (float[batch,time,4] y) { y = Relu(x) }")
    session = open_file(emitted(model, tmp_path), REQUEST)
    assert session.inputs[0].shape == session.outputs[0].shape == ("batch", "time", 4)
    session.close()


def test_equal_constants_are_stored_once(tmp_path: Path) -> None:
    text = """
    g (float[64,64] x, float[64,64] v, float[64,64] w) => (float[64,64] y) {
      a = Mul (x, v)
      y = Div (a, w)
    }"""
    same = numbers(64, 64)
    weights = {"v": same, "w": same.copy()}
    model = with_weights(parsed(text), **weights)
    path = emitted(model, tmp_path)
    assert path.stat().st_size < 1.5 * same.nbytes
    agree(model, {"x": numbers(64, 64, seed=1)}, tmp_path)
