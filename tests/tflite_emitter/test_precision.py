"""Float16 constants, int8 weights beside float32, int8, int16x8, integers at the borders."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from converter.check.feeding import Fed
from converter.errors import UnsupportedError
from converter.ir.model import Model
from converter.options.recipe import make_request
from converter.precision.calibrate.ranges import collect
from converter.precision.int8.insert import quantize
from converter.precision.int8.quantize import Int8
from converter.precision.int8.weight_only import quantize_weights
from converter.runtime.ort import OrtSession
from emitters.tflite.emitter import TfliteEmitter
from emitters.tflite.graph import DataType, Operator
from emitters.tflite.lowering import lower
from emitters.tflite.session import open_file
from tests.operators.cases import numbers, parsed, with_weights
from tests.passes.models import ListedSamples
from tests.schemes import SCHEMES
from tests.tflite_emitter import running
from tests.tflite_emitter.running import REQUEST, agree, emitted, kinds, operators, run_file

NET = """
g (float[batch,8,6,6] x, float[64,8,3,3] w1, float[64] b1, float[64,1,5,5] w2, float[64] b2,
   float[64,32] w3, float[32] b3, float[32,40] w4) => (float[batch,40] y)
{
  a = Conv <pads=[1,1,1,1]> (x, w1, b1) r = Relu (a)
  d = Conv <pads=[2,2,2,2], group=64> (r, w2, b2) m = GlobalAveragePool (d) f = Flatten (m)
  p = MatMul (f, w3) s = Add (p, b3) t = Relu (s) y = Gemm (t, w4)
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
    return running.int8_of(model, [{name: numbers(*shape, seed=seed)} for seed in range(8)])


def _weights(made: list[Operator]) -> dict[str, DataType]:
    """The types of weights by operator."""
    ops = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    return {op.op: op.inputs[1].dtype for op in made if op.op in ops and op.inputs[1] is not None}


def test_a_float16_model_is_stored_in_half_the_bytes(tmp_path: Path) -> None:
    small, large = _net("float16"), _net()
    paths = emitted(small, tmp_path / "16"), emitted(large, tmp_path / "32")
    assert paths[0].stat().st_size < 0.6 * paths[1].stat().st_size
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
    ends = "g (float16[4,64] x, float16[64,32] w) => (float16[4,32] y)"
    model = parsed(f"{ends} {{ y = Gemm <alpha=0.3> (x, w) }}")
    model = with_weights(model, w=numbers(64, 32).astype(np.float16))
    assert _weights(operators(model))["FULLY_CONNECTED"] == DataType.FLOAT
    assert "DEQUANTIZE" not in kinds(model)[1:]


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_one_constant_after_another_is_stored_in_fewer_bits(kind: str) -> None:
    width, count, half = 512, 12, kind == "float16"
    floats = kind if half else "float"
    weights = {
        f"w{at}": numbers(width, width, seed=at).astype(np.float16 if half else np.float32)
        for at in range(count)
    }
    given = ", ".join(f"{floats}[{width},{width}] {name}" for name in weights)
    nodes = " ".join(f"x{at + 1} = MatMul (x{at}, w{at})" for at in range(count))
    ends = f"({floats}[2,{width}] x0, {given}) => ({floats}[2,{width}] x{count})"
    model = with_weights(parsed(f"g {ends} {{ {nodes} }}"), **weights)
    if not half:
        model = quantize_weights(model, SCHEMES["tflite-int8"]).model
    lower(model, hybrid=not half)  # whatever is loaded for it
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = lower(model, hybrid=not half)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    products = [op for op in made.model.subgraphs[0].operators if op.op == "FULLY_CONNECTED"]
    stored = [op.inputs[1] for op in products]
    assert [w.dtype for w in stored if w] == [DataType.FLOAT if half else DataType.INT8] * count
    assert most - before < 1.3 * count * width**2 * 4  # in float32, and little more


def test_int8_weights_beside_float32_activations(tmp_path: Path) -> None:
    model = _net()
    made = quantize_weights(model, SCHEMES["tflite-int8"])
    assert len(made.lowered) == 4 and made.share == 1.0
    written = lower(made.model, hybrid=True).model.subgraphs[0].operators
    assert set(_weights(written).values()) == {DataType.INT8}
    assert set(_weights(operators(made.model)).values()) == {DataType.FLOAT}  # of a float32 file
    scale = made.model.graph.graph.initializers["Conv_0_weight_scale"].const_value
    conv = next(op for op in written if op.op == "CONV_2D").inputs[1]
    assert conv and conv.quant and conv.quant.axis == 0 and scale is not None
    np.testing.assert_allclose(conv.quant.scale, scale.numpy(), rtol=1e-6)
    feeds = {"x": numbers(2, 8, 6, 6)}
    expected = OrtSession(model.graph).run(feeds)["y"]
    path = emitted(made.model, tmp_path, "int8-dynamic")
    assert path.stat().st_size < 0.5 * emitted(model, tmp_path / "32").stat().st_size
    for xnnpack in (False, True):
        found = run_file(path, feeds, xnnpack=xnnpack)["y"]
        assert 0 < np.abs(found - expected).max() < 0.03 * np.abs(expected).max()


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
    made = Int8(model, ranges, scheme, samples, keep=["Gemm_8"], methods=["none"]).lower(["Conv_0"])
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


def _made(model: Model, kind: str) -> Operator:
    return next(op for op in operators(model) if op.op == kind)


CNN = """
g (float[batch,3,8,8] x, float[8,3,3,3] w1, float[8] b1, float[8,1,3,3] w2, float[8] b2,
   float[8,5] w3, float[5] b3) => (float[batch,5] y)
{
  a = Conv <pads=[1,1,1,1]> (x, w1, b1) r = Relu (a)
  d = Conv <pads=[1,1,1,1], group=8> (r, w2, b2) s = Add (d, r)
  p = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (s)
  m = GlobalAveragePool (p) f = Flatten (m) y = Gemm (f, w3, b3)
}"""


def test_everything_between_the_borders_is_integers(tmp_path: Path) -> None:
    """With the graph's scales."""
    sizes: dict[str, tuple[int, ...]] = {"w1": (8, 3, 3, 3), "w2": (8, 1, 3, 3), "w3": (8, 5)}
    sizes |= {"b1": (8,), "b2": (8,), "b3": (5,)}
    weights = {name: numbers(*size, seed=int(name[1]) - 1) for name, size in sizes.items()}
    given = [{"x": numbers(1, 3, 8, 8, seed=seed)} for seed in range(4)]
    model = running.int8_of(with_weights(parsed(CNN), **weights), given)
    assert kinds(model).count("QUANTIZE") == kinds(model).count("DEQUANTIZE") == 1
    feeds = {"x": numbers(2, 3, 8, 8, seed=9)}
    expected = OrtSession(model.graph, plain=True).run(feeds)["y"]
    last = _made(model, "FULLY_CONNECTED").outputs[0].quant
    assert last is not None
    for xnnpack in (False, True):
        found = run_file(emitted(model, tmp_path), feeds, xnnpack=xnnpack)["y"]
        assert np.abs(found - expected).max() <= 2 * last.scale[0]
    x, weight, bias = (side and side.quant for side in _made(model, "CONV_2D").inputs)
    assert x and weight and bias
    assert weight.axis == 0 and len(weight.scale) == 8
    np.testing.assert_allclose(bias.scale, x.scale * weight.scale, rtol=1e-6)
    depthwise = _made(model, "DEPTHWISE_CONV_2D").inputs[1]
    assert depthwise and depthwise.quant and depthwise.quant.axis == 3
    (before,), (after,) = _made(model, "MAX_POOL_2D").inputs, _made(model, "MAX_POOL_2D").outputs
    assert before and before.quant and before.quant.same(after.quant)
    assert before.quant.scale[0] < 1


def test_a_bias_behind_a_matrix_is_part_of_its_operator(tmp_path: Path) -> None:
    """In integers and in floats."""
    names = kinds(_int8(_net()))
    assert names.count("FULLY_CONNECTED") == 2 and "ADD" not in (*names, *kinds(_net()))
    assert names.count("QUANTIZE") == names.count("DEQUANTIZE") == 1
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
    text = "g (float[n,8] x, float[8,4] w) => (float[n,4] y) { a = Sin(x) y = MatMul(a, w) }"
    model = _int8(with_weights(parsed(text), w=numbers(8, 4)), shape=(1, 8))
    request = make_request({"source": "m.onnx", "precision": ["int8"], "io_dtype": "int8"})
    with pytest.raises(UnsupportedError) as caught:
        TfliteEmitter().emit(model, tmp_path, "int8", request)
    assert [item.node for item in caught.value.items] == ["x"]


def test_moved_integers_have_the_scale_of_what_computes() -> None:
    text = """
    g (int8[2,3,4] x, int8[12,5] w) => (float[2,5] y)
    <float s = {0.5}, int8 z = {3}, float t = {0.25}, int8 n = {0}, int64[2] shape = {2, 12}> {
      a = Reshape (x, shape) b = DequantizeLinear (a, s, z) v = DequantizeLinear (w, t, n)
      m = MatMul (b, v) q = QuantizeLinear (m, s, z) y = DequantizeLinear (q, s, z)
    }"""
    weights = np.random.default_rng(0).integers(-9, 9, (12, 5)).astype(np.int8)
    made = lower(with_weights(parsed(text), w=weights)).model
    quant = made.inputs["x"].quant
    assert quant is not None and quant.scale[0] == 0.5 and quant.zero_point[0] == 3
    assert [op.op for op in made.subgraphs[0].operators][-2:] == ["FULLY_CONNECTED", "DEQUANTIZE"]


def test_free_dimensions_keep_their_names(tmp_path: Path) -> None:
    model = parsed("g (float[batch,time,4] x) => (float[batch,time,4] y) { y = Relu(x) }")
    session = open_file(emitted(model, tmp_path), REQUEST)
    assert session.inputs[0].shape == session.outputs[0].shape == ("batch", "time", 4)
    session.close()


def test_equal_constants_are_stored_once(tmp_path: Path) -> None:
    ends = "g (float[64,64] x, float[64,64] v, float[64,64] w) => (float[64,64] y)"
    same = numbers(64, 64)
    text = f"{ends} {{ a = Mul (x, v) y = Div (a, w) }}"
    model = with_weights(parsed(text), v=same, w=same.copy())
    assert emitted(model, tmp_path).stat().st_size < 1.5 * same.nbytes
    agree(model, {"x": numbers(64, 64, seed=1)}, tmp_path)


SHAPE = (2, 4, 6, 8)
W, V = {"w": (8, 8)}, {"w": (8, 4, 3, 3)}
POINTS = V | {"v": (4, 8, 1, 1)}
NETS = {
    "conv": ("y = Conv <pads=[1,1,1,1]> (x, w, b)", V | {"b": (8,)}, "8,6,8"),
    "conv-relu": ("a = Conv (x, w)  r = Relu (a)  y = Conv (r, v)", POINTS, "4,4,6"),
    "conv-clip": ("a = Conv (x, w)  r = Clip (a, low, high)  y = Conv (r, v)", POINTS, "4,4,6"),
    "depthwise": ("y = Conv <group=4> (x, w, b)", {"w": (4, 1, 3, 3), "b": (4,)}, "4,4,6"),
    "matmul": ("y = MatMul (x, w)", W, "4,6,8"),
    "linear": ("a = MatMul (x, w)  y = Add (a, b)", W | {"b": (8,)}, "4,6,8"),
    "products": ("t = Transpose <perm=[0,1,3,2]> (x)  y = MatMul (x, t)", {}, "4,6,6"),
    "add": ("m = MatMul (x, w)  a = Tanh (m)  y = Add (a, x)", W, "4,6,8"),
    "sub": ("m = MatMul (x, w)  a = Sigmoid (m)  y = Sub (m, a)", W, "4,6,8"),
    "mul": ("m = MatMul (x, w)  y = Mul (m, x)", W, "4,6,8"),
    "concat": ("m = MatMul (x, w)  y = Concat <axis=1> (m, x)", W, "8,6,8"),
    "softmax": ("m = MatMul (x, w)  y = Softmax <axis=-1> (m)", W, "4,6,8"),
    "leaky": ("m = MatMul (x, w)  y = LeakyRelu <alpha=0.1> (m)", W, "4,6,8"),
    "mean": ("m = Conv (x, w)  y = GlobalAveragePool (m)", V, "8,1,1"),
    "max": ("m = Conv (x, w)  p = MaxPool <kernel_shape=[2,2],pads=[1,1,0,0]> (m)  y = Conv (p, v)",
            POINTS, "4,2,3"),
    "pad": ("m = MatMul (x, w)  p = Pad (m, pads)  y = MatMul (p, v)", W | {"v": (9, 5)}, "4,9,5"),
    "slice": ("m = MatMul (x, w)  s = Slice (m, first, last, first)  y = MatMul (s, v)",
              W | {"v": (8, 5)}, "1,6,5"),
}  # fmt: skip
CONSTANTS = (
    "float low = {-0.5}, float high = {2}, int64[8] pads = {0,0,1,1,0,0,2,0},"
    "int64[1] first = {1}, int64[1] last = {2}"
)
PRODUCTS = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}


def _small(name: str) -> Model:
    body, shapes, given = NETS[name]
    declared = "".join(f", float[{','.join(map(str, s))}] {n}" for n, s in shapes.items())
    ends = f"g (float[batch,4,6,8] x{declared}) => (float[batch,{given}] y)"
    weights = {n: numbers(*s, seed=i) / 2 for i, (n, s) in enumerate(shapes.items())}
    return with_weights(parsed(f"{ends} <{CONSTANTS}> {{ {body} }}"), **weights)


@pytest.mark.parametrize("name", NETS)
def test_an_operator(name: str, tmp_path: Path) -> None:
    """As close as 16 bits are, computed in them (no float32 between input and output), and what Q
    and DQ say within two steps of the output."""
    model = _small(name)
    samples = ListedSamples([{"x": numbers(*SHAPE, seed=seed)} for seed in range(6)])
    ranges = collect(model, samples, few=True)
    made = quantize(model, ranges, SCHEMES["tflite-int16x8"], method="minmax").model
    assert made.opset == 21
    graph = lower(made, hybrid=True).model.subgraphs[0]
    inner = [op for op in graph.operators if op.op not in ("QUANTIZE", "DEQUANTIZE", "RESHAPE")]
    kinds = [(op.op, op.outputs[0].dtype) for op in inner]
    assert inner and all(kind == DataType.INT16 for _, kind in kinds), kinds
    path, limit = emitted(made, tmp_path, "int16x8"), 2e-2 if PRODUCTS & set(dict(kinds)) else 1e-3
    for seed in (3, 4):
        feeds = {"x": numbers(*SHAPE, seed=seed)}
        whole = OrtSession(model.graph).run(feeds)["y"]
        steps = OrtSession(made.graph, plain=True).run(feeds)["y"]
        for xnnpack in (False, True):
            found = run_file(path, feeds, xnnpack=xnnpack)["y"]
            assert found.shape == whole.shape
            assert np.abs(found - whole).max() < limit * np.abs(whole).max()
            assert np.abs(found - steps).max() <= 4 * np.abs(steps).max() / 32767
