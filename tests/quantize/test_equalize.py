"""Equalization: the same outputs to the last bit, and channels of one size."""

import numpy as np
import pytest

from converter.ir.model import Model
from converter.precision.int8.equalize import equalize
from converter.precision.layers import array_of, layers
from tests.passes.models import noise, run
from tests.quantize.small import with_weights

CHAIN = "m (float[N,3,8,8] x) => (float[N,K,H,W] y) <float zero = {0}, float six = {6}>"
CASES = {
    "conv": ("r = Relu(c) y = Conv(r, b)", (5, 4, 1, 1)),
    "pooled": ("r = LeakyRelu(c) m = MaxPool <kernel_shape=[2,2]> (r) y = Conv(m, b)",
               (5, 4, 1, 1)),
    "absolute": ("r = Abs(c) m = GlobalAveragePool(r) y = Conv(m, b)", (5, 4, 1, 1)),
    "depthwise": ("r = Relu(c) y = Conv <group=4> (r, b)", (4, 1, 3, 3)),
    "grouped": ("y = Conv <group=2> (c, b)", (6, 2, 1, 1)),
    "up": ("r = Relu(c) y = ConvTranspose(r, b)", (4, 3, 2, 2)),
}  # fmt: skip


def _model(body: str, shape: tuple[int, ...] = (4, 4, 1, 1)) -> Model:
    text = f"{CHAIN} {{ c = Conv(x, a, p) {body} }}"
    return with_weights(text, a=(4, 3, 3, 3), p=(4,), b=shape)


def _same(model: Model, other: Model) -> None:
    for seed in range(3):
        feeds = noise(model, seed)
        np.testing.assert_array_equal(run(model, feeds)["y"], run(other, feeds)["y"])


@pytest.mark.parametrize("name", CASES)
def test_outputs_stay_the_same_bit_by_bit(name: str) -> None:
    model = _model(*CASES[name])
    before = [array_of(layer.weight).copy() for layer in layers(model.graph.graph)]
    made, lines = equalize(model)
    assert len(lines) == 1
    _same(model, made)
    first, _ = layers(made.graph.graph)
    assert not np.array_equal(array_of(first.weight), before[0])
    for layer, old in zip(layers(model.graph.graph), before, strict=True):
        np.testing.assert_array_equal(array_of(layer.weight), old)  # the original is untouched


def test_both_sides_end_up_alike() -> None:
    first, second = layers(equalize(_model(*CASES["conv"]))[0].graph.graph)
    large = np.abs(array_of(first.weight)).max(axis=(1, 2, 3))
    small = np.abs(array_of(second.weight)).max(axis=(0, 2, 3))
    assert (np.abs(np.log2(large / small)) <= 1.001).all()


def test_a_gemm_behind_flattened_channels() -> None:
    model = with_weights(
        """m (float[N, 3, 6, 6] x, float[4,3,3,3] a, float[5,64] b) => (float[N, 5] y) {
        c = Conv(x, a)  r = Relu(c)  f = Flatten(r)  y = Gemm <transB=1> (f, b) }""",
        a=(4, 3, 3, 3), b=(5, 64),
    )  # fmt: skip
    made, lines = equalize(model)
    assert len(lines) == 1
    _same(model, made)


@pytest.mark.parametrize("body", [
    "r = Clip(c, zero, six) y = Conv(r, b)",
    "r = Sigmoid(c) y = Conv(r, b)",
    "r = GlobalLpPool<p = 3>(c) y = Conv(r, b)",
    "r = Relu(c) d = Conv(r, b) y = Add(d, r)",
    "d = Conv(c, b) y = Mul(d, c)",
])  # fmt: skip
def test_what_does_not_scale_is_left_alone(body: str) -> None:
    assert equalize(_model(body))[1] == []
