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
    Array,
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


def test_one_constant_may_stand_for_two_things(tmp_path: Path) -> None:
    """Zeros that are the bias of two layers: each has its own scale."""
    text = """
    g (float[2,8] x, int8[8,8] w, int32[8] b) => (float[2,8] y) {
      s = Constant <value = float {0.05}> ()
      z = Constant <value = int8 {0}> ()
      t = Constant <value = float {0.02}> ()
      u = Constant <value = float {0.001}> ()
      r = Constant <value = float {0.002}> ()
      p = Constant <value = float {0.1}> ()
      q0 = QuantizeLinear (x, s, z)
      d0 = DequantizeLinear (q0, s, z)
      v = DequantizeLinear (w, t, z)
      b0 = DequantizeLinear (b, u)
      m0 = Gemm (d0, v, b0)
      q1 = QuantizeLinear (m0, p, z)
      d1 = DequantizeLinear (q1, p, z)
      b1 = DequantizeLinear (b, r)
      m1 = Gemm (d1, v, b1)
      q2 = QuantizeLinear (m1, p, z)
      y = DequantizeLinear (q2, p, z)
    }"""
    random = np.random.default_rng(0)
    weights = {
        "w": random.integers(-60, 60, (8, 8)).astype(np.int8),
        "b": random.integers(-900, 900, 8).astype(np.int32),
    }
    model = with_weights(parsed(text), **weights)
    assert kinds(model) == ["QUANTIZE", "FULLY_CONNECTED", "FULLY_CONNECTED", "DEQUANTIZE"]
    agree(model, {"x": numbers(2, 8)}, tmp_path, atol=0.11)


# -- Q and DQ by themselves ----------------------------------------------------------------


def _round(x: str, scale: str, zero: str, axis: int = 1) -> Model:
    return parsed(
        f"g ({x} x, {scale} s, {zero} z) => ({x.replace(',', ',')} y) "
        f"{{ q = QuantizeLinear <axis={axis}> (x, s, z)\n"
        f"y = DequantizeLinear <axis={axis}> (q, s, z) }}"
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_scales_that_are_fed(tmp_path: Path, dtype: str) -> None:
    model = _round("float[2,3,4]", "float[3]", f"{dtype}[3]")
    feeds: dict[str, Array] = {
        "x": numbers(2, 3, 4),
        "s": np.asarray([0.1, 0.5, 0.03], np.float32),
        "z": np.asarray([1, 100, 7], dtype),
    }
    agree(model, feeds, tmp_path)


def test_constant_scales_for_each_channel(tmp_path: Path) -> None:
    model = with_weights(
        _round("float[2,3,4]", "float[3]", "int8[3]"),
        s=np.asarray([0.1, 0.5, 0.03], np.float32),
        z=np.asarray([1, -3, 7], np.int8),
    )
    agree(model, {"x": numbers(2, 3, 4)}, tmp_path)


def test_moved_integers_get_the_scale_that_the_graph_says(tmp_path: Path) -> None:
    """A Reshape between Q and DQ of different scales rounds anew, and so does a Concat."""
    text = """
    g (float[2,6] x, float[3,4] c) => (float[6,4] y) {
      s = Constant <value = float {0.02}> ()
      t = Constant <value = float {0.05}> ()
      z = Constant <value = int8 {3}> ()
      shape = Constant <value = int64[2] {3, 4}> ()
      q = QuantizeLinear (x, s, z)
      d = DequantizeLinear (q, s, z)
      r = Reshape (d, shape)
      q1 = QuantizeLinear (r, t, z)
      d1 = DequantizeLinear (q1, t, z)
      qc = QuantizeLinear (c, s, z)
      dc = DequantizeLinear (qc, s, z)
      j = Concat <axis=0> (d1, dc)
      q2 = QuantizeLinear (j, t, z)
      y = DequantizeLinear (q2, t, z)
    }"""
    feeds = {"x": numbers(2, 6), "c": numbers(3, 4, seed=1)}
    model = parsed(text)
    agree(model, feeds, tmp_path, atol=0.051)
    found = run_file(emitted(model, tmp_path), feeds)["y"]
    np.testing.assert_allclose(found / 0.05, np.rint(found / 0.05), atol=1e-3)


def test_a_sigmoid_of_another_scale_than_its_kernels(tmp_path: Path) -> None:
    text = """
    g (float[2,6] x) => (float[2,6] y) {
      s = Constant <value = float {0.02}> ()
      z = Constant <value = int8 {3}> ()
      q = QuantizeLinear (x, s, z)
      d = DequantizeLinear (q, s, z)
      a = Sigmoid (d)
      q1 = QuantizeLinear (a, s, z)
      y = DequantizeLinear (q1, s, z)
    }"""
    agree(parsed(text), {"x": numbers(2, 6)}, tmp_path, atol=0.0201)


def test_integers_that_stand_for_two_things_at_run_time(tmp_path: Path) -> None:
    text = """
    g (float[2,3] x) => (float[2,3] y, float[2,3] v) {
      s = Constant <value = float {0.5}> ()
      t = Constant <value = float {0.25}> ()
      z = Constant <value = int8 {3}> ()
      q = QuantizeLinear (x, s, z)
      y = DequantizeLinear (q, s, z)
      v = DequantizeLinear (q, t, z)
    }"""
    agree(parsed(text), {"x": numbers(2, 3)}, tmp_path)


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
