"""int16x8: activations of 16 bits beside int8 weights, each operator in LiteRT's own kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.ir import Model
from converter.ort import OrtSession
from converter.quantize.insert import quantize
from converter.quantize.ranges import collect
from converter.quantize.scheme import SCHEMES
from emitters.tflite.graph import DataType
from emitters.tflite.lowering import lower
from tests.passes.models import ListedSamples
from tests.tflite_emitter.running import emitted, numbers, parsed, run_file, with_weights

SCHEME = SCHEMES["tflite-int16x8"]
SHAPE = (2, 4, 6, 8)
W, V = (8, 8), (8, 4, 3, 3)
NETS = {
    "conv": ("y = Conv <pads=[1,1,1,1]> (x, w, b)", {"w": V, "b": (8,)}, "8,6,8"),
    "conv-relu": (
        "a = Conv (x, w)  r = Relu (a)  y = Conv (r, v)",
        {"w": V, "v": (4, 8, 1, 1)},
        "4,4,6",
    ),
    "conv-clip": (
        "a = Conv (x, w)  r = Clip (a, low, high)  y = Conv (r, v)",
        {"w": V, "v": (4, 8, 1, 1)},
        "4,4,6",
    ),
    "depthwise": ("y = Conv <group=4> (x, w, b)", {"w": (4, 1, 3, 3), "b": (4,)}, "4,4,6"),
    "matmul": ("y = MatMul (x, w)", {"w": W}, "4,6,8"),
    "linear": ("a = MatMul (x, w)  y = Add (a, b)", {"w": W, "b": (8,)}, "4,6,8"),
    "products": ("t = Transpose <perm=[0,1,3,2]> (x)  y = MatMul (x, t)", {}, "4,6,6"),
    "add": ("m = MatMul (x, w)  a = Tanh (m)  y = Add (a, x)", {"w": W}, "4,6,8"),
    "sub": ("m = MatMul (x, w)  a = Sigmoid (m)  y = Sub (m, a)", {"w": W}, "4,6,8"),
    "mul": ("m = MatMul (x, w)  y = Mul (m, x)", {"w": W}, "4,6,8"),
    "concat": ("m = MatMul (x, w)  y = Concat <axis=1> (m, x)", {"w": W}, "8,6,8"),
    "softmax": ("m = MatMul (x, w)  y = Softmax <axis=-1> (m)", {"w": W}, "4,6,8"),
    "leaky": ("m = MatMul (x, w)  y = LeakyRelu <alpha=0.1> (m)", {"w": W}, "4,6,8"),
    "mean": ("m = Conv (x, w)  y = GlobalAveragePool (m)", {"w": V}, "8,1,1"),
    "max": (
        "m = Conv (x, w)  p = MaxPool <kernel_shape=[2,2],pads=[1,1,0,0]> (m)  y = Conv (p, v)",
        {"w": V, "v": (4, 8, 1, 1)},
        "4,2,3",
    ),
    "pad": (
        "m = MatMul (x, w)  p = Pad (m, pads)  y = MatMul (p, v)",
        {"w": W, "v": (9, 5)},
        "4,9,5",
    ),
    "slice": (
        "m = MatMul (x, w)  s = Slice (m, first, last, first)  y = MatMul (s, v)",
        {"w": W, "v": (8, 5)},
        "1,6,5",
    ),
}
CONSTANTS = (
    "float low = {-0.5}, float high = {2}, int64[8] pads = {0,0,1,1,0,0,2,0},"
    "int64[1] first = {1}, int64[1] last = {2}"
)


def _net(name: str) -> Model:
    body, shapes, given = NETS[name]
    declared = "".join(f", float[{','.join(map(str, s))}] {n}" for n, s in shapes.items())
    text = (
        f"g (float[batch,4,6,8] x{declared}) => (float[batch,{given}] y) <{CONSTANTS}> {{ {body} }}"
    )
    weights = {n: numbers(*s, seed=i) / 2 for i, (n, s) in enumerate(shapes.items())}
    return with_weights(parsed(text), **weights)


def _sixteen(model: Model) -> Model:
    feeds = [{"x": numbers(*SHAPE, seed=seed)} for seed in range(6)]
    ranges = collect(model, ListedSamples(feeds), few=True)
    return quantize(model, ranges, SCHEME, method="minmax").model


@pytest.mark.parametrize("name", NETS)
def test_an_operator(name: str, tmp_path: Path) -> None:
    """As close as 16 bits are, and computed in them: no float32 between input and output."""
    model = _net(name)
    made = _sixteen(model)
    assert made.opset == 21
    graph = lower(made, hybrid=True).model.subgraphs[0]
    inner = [op for op in graph.operators if op.op not in ("QUANTIZE", "DEQUANTIZE", "RESHAPE")]
    assert inner and all(op.outputs[0].dtype == DataType.INT16 for op in inner), [
        (op.op, op.outputs[0].dtype) for op in inner
    ]
    feeds = {"x": numbers(*SHAPE, seed=3)}
    expected = OrtSession(model.graph).run(feeds)["y"]
    path = emitted(made, tmp_path, "int16x8")
    limit = (
        2e-2
        if any(op.op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") for op in inner)
        else 1e-3
    )
    for xnnpack in (False, True):
        found = run_file(path, feeds, xnnpack=xnnpack)["y"]
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() < limit * np.abs(expected).max()


@pytest.mark.parametrize("name", NETS)
def test_as_the_graph_says(name: str, tmp_path: Path) -> None:
    """LiteRT gives what Q and DQ say, within two steps of the output."""
    made = _sixteen(_net(name))
    feeds = {"x": numbers(*SHAPE, seed=4)}
    expected = OrtSession(made.graph, plain=True).run(feeds)["y"]
    found = run_file(emitted(made, tmp_path, "int16x8"), feeds)["y"]
    step = np.abs(expected).max() / 32767
    assert np.abs(found - expected).max() <= 4 * step
