"""Layers as rows and matrices, and graphs run piece by piece, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import pytest

from converter.ir.model import Model
from converter.precision.layers import layers
from converter.precision.walk import Walk
from tests.passes.models import noise, run
from tests.quantize.small import with_weights

CASES = {
    "plain": ("Conv(x, w)", (2, 4, 7, 6), (5, 4, 3, 3)),
    "strided": ("Conv <strides=[2,1], dilations=[1,2], pads=[1,2,0,1]> (x, w)",
                (2, 4, 9, 9), (6, 4, 3, 2)),
    "grouped": ("Conv <group=2, pads=[1,1,1,1]> (x, w)", (2, 4, 5, 5), (6, 2, 3, 3)),
    "depthwise": ("Conv <group=4, strides=[2,2]> (x, w)", (2, 4, 8, 8), (8, 1, 3, 3)),
    "upper": ('Conv <auto_pad="SAME_UPPER", strides=[2,2]> (x, w)', (1, 3, 7, 8), (2, 3, 3, 3)),
    "lower": ('Conv <auto_pad="SAME_LOWER", strides=[2,2]> (x, w)', (1, 3, 8, 7), (2, 3, 4, 2)),
    "sound": ("Conv <strides=[3]> (x, w)", (2, 2, 20), (3, 2, 5)),
    "up": ("ConvTranspose <strides=[2,3]> (x, w)", (2, 4, 3, 4), (4, 5, 3, 2)),
    "grouped up": ("ConvTranspose <group=2, dilations=[2,1]> (x, w)", (1, 4, 3, 3), (4, 3, 2, 2)),
    "gemm": ("Gemm <transB=1> (x, w)", (5, 6), (3, 6)),
    "gemm as it is": ("Gemm(x, w)", (5, 6), (6, 3)),
    "matmul": ("MatMul(x, w)", (2, 5, 6), (6, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows_times_matrices_is_the_operator(name: str) -> None:
    call, shape, weights = CASES[name]
    dims, sizes = ", ".join(map(str, shape)), ", ".join(map(str, weights))
    rank = ", ".join("abcd"[: len(shape)])
    text = f"m (float[{dims}] x, float[{sizes}] w) => (float[{rank}] y) {{ y = {call} }}"
    model = with_weights(text, w=weights)
    (layer,) = layers(model.graph.graph)
    feeds = noise(model)
    matrices = layer.matrices(layer.real())
    rows = layer.rows(feeds["x"], 10**6)
    found = np.concatenate(list(rows @ matrices.transpose(0, 2, 1)), axis=-1)
    expected = np.moveaxis(run(model, feeds)["y"], layer.channel_axis, -1)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(layer.tensor(matrices), layer.real())
    some = layer.rows(feeds["x"], 4)
    assert some.shape == (layer.groups, 4, layer.inputs)
    assert {row.tobytes() for row in some[0]} <= {row.tobytes() for row in rows[0]}


@pytest.mark.parametrize("mapped", [False, True])
def test_a_walk_carries_the_whole_model(mapped: bool, tmp_path: Path) -> None:
    model = with_weights(
        """m (float[N, 20] x, float[20, 20] a, float[20, 20] b, float[20, 20] c)
        => (float[N, 20] y) {
        p = MatMul(x, a)  q = MatMul(x, b)  r = Relu(p)  s = Add(r, q)  t = MatMul(s, c)
        y = Add(t, p) }""",
        a=(20, 20), b=(20, 20), c=(20, 20),
    )  # fmt: skip
    if mapped:
        model.save(tmp_path / "model.onnx", external=True)
        model = Model.load(tmp_path / "model.onnx")
        assert model.mapped_bytes() == 3 * 1600
    feeds = [noise(model, seed) for seed in range(3)]
    walk = Walk(model, feeds)
    for layer in layers(model.graph.graph):
        walk.reach(layer.node.outputs[0])
    found = walk.reach(model.graph.graph.outputs[0])
    for item, value in zip(feeds, found, strict=True):
        np.testing.assert_array_equal(value, run(model, item)["y"])
    assert walk.bytes == sum(value.nbytes for value in found)
