"""Bias correction: every channel's mean is the float model's."""

import numpy as np
import onnx_ir
import pytest

from converter.ir.model import Model
from converter.precision.calibrate.ranges import collect
from converter.precision.int8.bias_correction import correct_biases
from converter.precision.int8.insert import quantize
from converter.precision.int8.placement import place
from converter.precision.quantized import Quantized
from converter.runtime.ort import OrtSession
from tests.passes.models import Array, ListedSamples
from tests.quantize.small import correlated, with_weights
from tests.schemes import SCHEMES

Body = tuple[str, dict[str, tuple[int, ...]], tuple[int, ...]]

BODIES: dict[str, Body] = {
    "conv": ("m (float[N,8,6,6] x) => (float[N,4,4,4] y)"
             " { p = Conv(x, a, b) q = Relu(p) y = Conv(q, c) }",
             {"a": (8, 8, 3, 3), "b": (8,), "c": (4, 8, 1, 1)}, (1, 8, 6, 6)),
    "gemm": ("m (float[N,8] x) => (float[N,4] y)"
             " { p = Gemm <transB=1> (x, a) q = Relu(p) y = Gemm <transB=1> (q, c) }",
             {"a": (16, 8), "c": (4, 16)}, (9, 8)),
    "matmul": ("m (float[N,8,5] x) => (float[N,8,4] y) { o = MatMul(x, a) p = Add(b, o)"
               " q = Relu(p) r = MatMul(q, c) y = Add(r, d) }",
               {"a": (5, 8), "b": (8,), "c": (8, 4), "d": (4,)}, (1, 8, 5)),
    "up": ("m (float[N,8,4,4] x) => (float[N,4,6,6] y)"
           " { p = ConvTranspose(x, a) q = Relu(p) y = Conv(q, c) }",
           {"a": (8, 8, 3, 3), "c": (4, 8, 1, 1)}, (1, 8, 4, 4)),
}  # fmt: skip


def _means(model: Model, samples: ListedSamples, axis: int) -> Array:
    session = OrtSession(model.graph, plain=True)
    found = [np.moveaxis(session.run(s.feeds)["y"], axis, -1) for s in samples]
    channels = found[0].shape[-1]
    means: Array = np.concatenate([value.reshape(-1, channels) for value in found]).mean(axis=0)
    return means


def _lowered(model: Model, samples: ListedSamples, scheme: str) -> Quantized:
    chosen = SCHEMES[scheme]
    tensors = place(model, chosen).tensors
    return quantize(model, collect(model, samples, tensors), chosen)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", BODIES)
def test_means_come_back(name: str, scheme: str) -> None:
    text, weights, shape = BODIES[name]
    model = with_weights(text, **weights)
    samples = correlated({"x": shape})
    lowered = _lowered(model, samples, scheme)
    # weights gone wrong by a lot: the means have to be right all the same
    for value in lowered.model.graph.graph.initializers.values():
        assert value.const_value is not None and value.name is not None
        array = value.const_value.numpy()
        if array.dtype == np.int8 and array.ndim > 1 and value.name.startswith("c"):
            spoiled = np.clip(array.astype(int) + 3, -127, 127).astype(np.int8)
            value.const_value = onnx_ir.Tensor(spoiled, name=value.name)
    corrected = correct_biases(model, lowered, samples)
    axis = -1 if name == "matmul" else 1
    wanted = _means(model, samples, axis)
    before = np.abs(_means(lowered.model, samples, axis) - wanted).max()
    after = np.abs(_means(corrected.model, samples, axis) - wanted).max()
    assert after < 0.1 * before
    assert f"{len(lowered.lowered)} biases corrected, on 16 samples" in corrected.decisions
    session = OrtSession(corrected.model.graph)  # optimized, as it will run
    assert np.isfinite(session.run(next(iter(samples)).feeds)["y"]).all()
