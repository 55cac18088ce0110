"""Gather and its like, OneHot, TopK, NonZero, Trilu and bits, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tflite_emitter.running import agree, numbers, parsed, with_weights


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("size", ["2", "N"])
def test_gather_elements(tmp_path: Path, axis: int, size: str) -> None:
    model = parsed(f"""g (float[{size}, 3, 4] x, int64[{size}, 2, 3] i)
        => (float[{size}, 2, 3] y) {{
        y = GatherElements<axis = {axis}>(x, i) }}""")
    places = np.random.default_rng(0).integers(-2, 2, (2, 2, 3))
    agree(model, {"x": numbers(2, 3, 4), "i": places}, tmp_path)


@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("size", ["2", "N"])
def test_gather_nd_of_batches(tmp_path: Path, batch: int, size: str) -> None:
    model = parsed(f"""g (float[{size}, 3, 4, 5] x, int64[{size}, 3, 1] i)
        => (float[A, B, C, D] y) {{
        z = GatherND<batch_dims = {batch}>(x, i)
        y = Neg(z)
    }}""")
    model.graph.graph.outputs[0].shape = None
    places = np.random.default_rng(0).integers(-2, 2, (2, 3, 1))
    agree(model, {"x": numbers(2, 3, 4, 5), "i": places}, tmp_path)


@pytest.mark.parametrize("dtype", ["float", "int64", "int32", "uint8"])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k_along_any_axis(tmp_path: Path, dtype: str, largest: int) -> None:
    """Equal values come by their index."""
    model = parsed(f"""g ({dtype}[N, 6, 3] x) => ({dtype}[N, 4, 3] y, int64[N, 4, 3] i)
        <int64[1] k = {{4}}> {{ y, i = TopK<axis = 1, largest = {largest}>(x, k) }}""")
    x = np.random.default_rng(0).integers(0, 4, (2, 6, 3))
    if dtype == "int64":
        x[0, 0, 0] = np.iinfo(np.int64).min
    name = "float32" if dtype == "float" else dtype
    agree(model, {"x": x.astype(name)}, tmp_path)


@pytest.mark.parametrize("axis", [0, -1])
def test_one_hot_of_values_fed(tmp_path: Path, axis: int) -> None:
    model = parsed(f"""g (int64[N, 3] i, float[2] v) => (float[A, B, C] y) <int64 d = {{4}}> {{
        z = OneHot<axis = {axis}>(i, d, v)
        y = Neg(z)
    }}""")
    places = np.asarray([[0, 3, -1], [-4, 4, 2]], np.int64)
    agree(model, {"i": places, "v": np.asarray([-1, 5], np.float32)}, tmp_path)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("rank", [2, 3, 5])
def test_triangles_of_free_sizes(tmp_path: Path, upper: int, rank: int) -> None:
    shape = ["2", "3", "2", "4", "N"][5 - rank :]
    dims = ", ".join(shape)
    model = parsed(f"""g (float[{dims}] x, int64 k) => (float[{dims}] y) {{
        y = Trilu<upper = {upper}>(x, k) }}""")
    x = numbers(*[5 if dim == "N" else int(dim) for dim in shape])
    for k in (-1, 0, 2):
        agree(model, {"x": x, "k": np.asarray(k, np.int64)}, tmp_path)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint32", "int16", "uint8", "uint64"])
def test_bits(tmp_path: Path, dtype: str) -> None:
    model = parsed(f"""g ({dtype}[2, 9] a, {dtype}[9] b)
        => ({dtype}[2, 9] p, {dtype}[2, 9] q, {dtype}[2, 9] r, {dtype}[2, 9] s) {{
        p = BitwiseAnd(a, b)  q = BitwiseOr(a, b)  r = BitwiseXor(a, b)  s = BitwiseNot(a) }}""")
    limits = np.iinfo(dtype)
    random = np.random.default_rng(0)
    a = random.integers(limits.min, limits.max, (2, 9), dtype, endpoint=True)
    b = random.integers(limits.min, limits.max, 9, dtype, endpoint=True)
    a[0, :2], b[:2] = limits.min, (limits.max, limits.min)
    agree(model, {"a": a, "b": b}, tmp_path)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", ["uint32", "uint8"])
def test_shifts(tmp_path: Path, direction: str, dtype: str) -> None:
    model = parsed(f"""g ({dtype}[5] a, {dtype}[5] b) => ({dtype}[5] y) {{
        y = BitShift<direction = "{direction}">(a, b) }}""")
    a = np.asarray([0, 1, 200, 255, 77], dtype)
    agree(model, {"a": a, "b": np.asarray([1, 0, 3, 7, 2], dtype)}, tmp_path)


def test_compress_and_what_is_found(tmp_path: Path) -> None:
    model = parsed("""g (float[N, 4] x, bool[3] c) => (float[N, M] y, float[K] z, int64[2, L] i) {
        y = Compress<axis = 1>(x, c)
        z = Compress(x, c)
        i = NonZero(x)
    }""")
    x = numbers(3, 4)
    x[0, 1] = x[2, 2] = 0
    for chosen in ([True, False, True], [False, False, False]):
        agree(model, {"x": x, "c": np.asarray(chosen)}, tmp_path)


def test_gather_of_integers_keeps_their_scale(tmp_path: Path) -> None:
    model = parsed("""g (float[N, 4] x, float s, int8 z) => (float[N, 2] y) <int64[2] i = {3, -4}> {
        a = QuantizeLinear(x, s, z)
        b = DequantizeLinear(a, s, z)
        c = Gather<axis = 1>(b, i)
        d = QuantizeLinear(c, s, z)
        y = DequantizeLinear(d, s, z)
    }""")
    model = with_weights(model, s=np.asarray(0.02, np.float32), z=np.asarray(3, np.int8))
    agree(model, {"x": numbers(3, 4)}, tmp_path)


def test_where_of_many_axes(tmp_path: Path) -> None:
    model = parsed("""g (bool[2, 1, 3, 1, 1, 2] c, float[N, 1, 2, 1, 1] x, float y)
        => (float[2, N, 3, 2, 1, 2] z) { z = Where(c, x, y) }""")
    c = numbers(2, 1, 3, 1, 1, 2) > 0
    agree(model, {"c": c, "x": numbers(3, 1, 2, 1, 1), "y": np.asarray(9, np.float32)}, tmp_path)
