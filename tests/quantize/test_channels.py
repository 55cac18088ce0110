"""Channels of one size where integers begin and end: nothing changes in float, int8 gains."""

import numpy as np
import onnx
import pytest

from converter.ir.model import Model
from converter.precision.calibrate.ranges import collect
from converter.precision.int8.channel_scales import scale_channels
from converter.precision.int8.insert import quantize
from converter.precision.int8.scheme import ONNXRUNTIME_CPU
from converter.runtime.ort import OrtSession
from emitters.tflite.scheme import TFLITE
from tests.passes.models import Array, ListedSamples, ops
from tests.quantize.small import with_weights

SPECTRUM = """
g (float[1,8,16] x) => (float[1,6,14] y) {
   [n_e] e = Exp (x) [n_c] c = Conv (e, w, b) [n_r] r = Relu (c) [n_s] s = Sqrt (r)
   [n_t] y = Tanh (s) }"""

BRANCH = """
g (float[1,8,16] x, bool c) => (float[1,6,14] y) { [n_if] y = If (c) <
   then_branch = t () => (float[1,6,14] p) { [n_c] p0 = Conv (x, w, b) [n_s] p = Tanh (p0) },
   else_branch = e () => (float[1,6,14] q) { [n_q] q = Conv (x, w) }> }"""


def samples(**more: Array) -> ListedSamples:
    """Channels whose sizes go from 1 to 100."""
    sizes = np.linspace(0, np.log(100), 8).reshape(1, 8, 1)
    noise = np.random.default_rng(0).standard_normal((16, 1, 8, 16))
    return ListedSamples([{"x": (0.2 * one + sizes).astype(np.float32), **more} for one in noise])


def model(text: str) -> Model:
    return with_weights(text, 3.0, w=(6, 8, 3), b=(6,))


def worst(one: Model, other: Model, feeds: ListedSamples) -> float:
    a, b = OrtSession(one.graph, plain=True), OrtSession(other.graph)
    return max(float(np.abs(a.run(s.feeds)["y"] - b.run(s.feeds)["y"]).max()) for s in feeds)


@pytest.mark.parametrize("text", [SPECTRUM, BRANCH], ids=["main", "branch"])
def test_the_same_in_float_and_closer_in_int8(text: str) -> None:
    plain = model(text)
    feeds = samples(**({"c": np.array(True)} if text is BRANCH else {}))
    evened = scale_channels(plain, ONNXRUNTIME_CPU, feeds)
    onnx.checker.check_model(evened.model.to_proto(), full_check=True)
    assert evened.decisions
    assert ops(evened.model)["Mul"] == len(evened.tensors) > 0
    assert worst(plain, evened.model, feeds) < 1e-5
    known = collect(evened.model, feeds)
    assert set(evened.tensors) <= set(known.names)
    before = quantize(plain, collect(plain, feeds), ONNXRUNTIME_CPU)
    after = quantize(evened.model, known, ONNXRUNTIME_CPU)
    assert "n_c" in after.lowered
    assert worst(plain, after.model, feeds) < 0.7 * worst(plain, before.model, feeds)


def test_who_has_no_use_for_it() -> None:
    assert not scale_channels(model(SPECTRUM), TFLITE, samples()).tensors
    plain = with_weights(SPECTRUM, 0.0, w=(6, 8, 3), b=(6,))
    rng = np.random.default_rng(1)
    flat = [{"x": rng.uniform(-1, 1, (1, 8, 16)).astype(np.float32)} for _ in range(16)]
    evened = scale_channels(plain, ONNXRUNTIME_CPU, ListedSamples(flat))
    assert not [name for name in evened.tensors if name.endswith("_shrink_out")]
