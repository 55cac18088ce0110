"""Q and DQ become integer operators with the same scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from converter.ir import Model
from converter.ort import OrtSession
from tests.tflite_emitter.running import (
    emitted,
    int8_of,
    kinds,
    numbers,
    operators,
    parsed,
    run_file,
    with_weights,
)

CNN = """
g (float[batch,3,8,8] x, float[8,3,3,3] w1, float[8] b1, float[8,1,3,3] w2, float[8] b2,
   float[8,5] w3, float[5] b3) => (float[batch,5] y)
{
  a = Conv <pads=[1,1,1,1]> (x, w1, b1)
  r = Relu (a)
  d = Conv <pads=[1,1,1,1], group=8> (r, w2, b2)
  s = Add (d, r)
  p = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (s)
  m = GlobalAveragePool (p)
  f = Flatten (m)
  y = Gemm (f, w3, b3)
}"""


def _cnn() -> Model:
    return with_weights(
        parsed(CNN),
        w1=numbers(8, 3, 3, 3),
        b1=numbers(8),
        w2=numbers(8, 1, 3, 3, seed=1),
        b2=numbers(8, seed=1),
        w3=numbers(8, 5, seed=2),
        b3=numbers(5, seed=2),
    )


def _int8(model: Model) -> Model:
    return int8_of(model, [{"x": numbers(1, 3, 8, 8, seed=seed)} for seed in range(4)])


def test_everything_between_the_borders_is_integers(tmp_path: Path) -> None:
    made = _int8(_cnn())
    assert sorted(set(kinds(made)) & {"QUANTIZE", "DEQUANTIZE"}) == ["DEQUANTIZE", "QUANTIZE"]
    assert kinds(made).count("QUANTIZE") == kinds(made).count("DEQUANTIZE") == 1
    feeds = {"x": numbers(2, 3, 8, 8, seed=9)}
    expected = OrtSession(made.graph, plain=True).run(feeds)["y"]
    scale = next(op for op in operators(made) if op.op == "FULLY_CONNECTED").outputs[0].quant
    assert scale is not None
    for xnnpack in (False, True):
        found = run_file(emitted(made, tmp_path), feeds, xnnpack=xnnpack)["y"]
        assert np.abs(found - expected).max() <= 2 * scale.scale[0]


def test_scales_are_those_of_the_graph() -> None:
    made = _int8(_cnn())
    conv = next(op for op in operators(made) if op.op == "CONV_2D")
    x, weights, bias = conv.inputs
    assert x is not None and weights is not None and bias is not None
    assert x.quant is not None and weights.quant is not None and bias.quant is not None
    assert weights.quant.axis == 0 and len(weights.quant.scale) == 8
    np.testing.assert_allclose(bias.quant.scale, x.quant.scale * weights.quant.scale, rtol=1e-6)
    depthwise = next(op for op in operators(made) if op.op == "DEPTHWISE_CONV_2D")
    assert depthwise.inputs[1] is not None and depthwise.inputs[1].quant is not None
    assert depthwise.inputs[1].quant.axis == 3


def test_a_padded_max_pool_keeps_its_scale() -> None:
    pool = next(op for op in operators(_int8(_cnn())) if op.op == "MAX_POOL_2D")
    (x,), (y,) = pool.inputs, pool.outputs
    assert x is not None and x.quant is not None and x.quant.same(y.quant)
    assert x.quant.scale[0] < 1
