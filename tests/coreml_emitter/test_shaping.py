"""Reshape, Expand, Shape and their like, of sizes that are free or computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml_emitter.running import agree, numbers, parsed, refusals
from tests.coreml_emitter.several import several, vectors

Array = np.ndarray[Any, Any]


def whole(*shape: int) -> Array:
    """0, 1, ... as int64."""
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape)


def test_reshapes_of_a_free_batch() -> None:
    targets = [
        [0, 0, -1], [0, -1], [-1, 0, 2, 4], [0, 3, 0, 2], [-1], [1, -1, 4, 2], [1, 1, -1, 4, 2],
    ]  # fmt: skip
    weights = vectors(**{f"s{i}": target for i, target in enumerate(targets)})
    nodes = [f"Reshape(x, s{i})" for i in range(len(targets))]
    model = several("float[b, 3, 4, 2] x", "float", nodes, weights)
    agree(model, [{"x": numbers(2, 3, 4, 2)}, {"x": numbers(5, 3, 4, 2)}])


def test_reshape_keeps_two_free_axes_in_place() -> None:
    """[b, n, 6] to heads and back: 0 and a size that is computed beside -1."""
    model = parsed("""
        g (float[b, n, 6] x) => (float[b, n, 6] z)
        <int64[4] heads = {0, 0, 2, 3}, int64[3] back = {0, -1, 6}> {
            a = Reshape(x, heads)
            t = Transpose<perm = [0, 2, 1, 3]>(a)
            u = Transpose<perm = [0, 2, 1, 3]>(t)
            z = Reshape(u, back)
        }""")
    agree(model, [{"x": numbers(2, 5, 6)}, {"x": numbers(1, 3, 6)}])


@pytest.mark.parametrize("target", [15, 17])
def test_reshape_of_two_free_axes_to_as_many_axes(target: int) -> None:
    """0 and -1 both stand for sizes that are free: a mask's axis goes to another place."""
    weights = vectors(s0=[0, 1, -1, 1], s1=[-1, 0, 0, 1], s2=[0, 0, 1, -1])
    nodes = [f"Reshape(x, s{i})" for i in range(3)]
    model = several("float[b, 1, 1, n] x", "float", nodes, weights)
    agree(model, [{"x": numbers(b, 1, 1, n)} for b, n in ((2, 5), (1, 3))], target=target)


def test_reshape_zero_where_ranks_differ() -> None:
    """ONNX's 0 counts from the first axis; MIL's, from iOS17 on, from the last."""
    model = parsed("""
        g (float[b, n, 2, 3] x) => (float[b, n, 6] y)
        <int64[3] s = {0, 0, 6}> { y = Reshape(x, s) }""")
    for target in (15, 17):
        agree(model, [{"x": numbers(4, 5, 2, 3)}, {"x": numbers(3, 1, 2, 3)}], target=target)


def test_reshape_to_computed_sizes() -> None:
    model = parsed("""
        g (float[b, n, 8] x) => (float[p, q] y)
        <int64[1] i = {1}, int64[1] minus = {-1}> {
            s = Shape(x)
            n = Gather(s, i)
            t = Concat<axis = 0>(n, minus)
            y = Reshape(x, t)
        }""")
    agree(model, [{"x": numbers(2, 5, 8)}, {"x": numbers(3, 4, 8)}])


def test_reshape_to_computed_sizes_and_a_zero() -> None:
    """The 0 is the second axis' size; from the last axis on it would be another's."""
    model = parsed("""
        g (float[b, n, m, 2] x) => (float[p, q, r] y)
        <int64[1] i = {0}, int64[1] zero = {0}, int64[1] minus = {-1}> {
            s = Shape(x)
            b = Gather(s, i)
            t = Concat<axis = 0>(b, zero, minus)
            y = Reshape(x, t)
        }""")
    for target in (15, 17):
        agree(model, [{"x": numbers(2, 5, 3, 2)}, {"x": numbers(3, 4, 1, 2)}], target=target)


def test_reshape_to_an_input_with_zeros() -> None:
    """Nothing is known of the target: 0 is looked for when it runs."""
    model = parsed("g (float[a, b, c] x, int64[2] s) => (float[p, q] y) { y = Reshape(x, s) }")
    x = numbers(4, 2, 6)
    agree(model, [{"x": x, "s": np.array(s)} for s in ([0, 12], [-1, 3], [8, -1], [0, -1])])
    same = parsed("g (float[a, b] x, int64[2] s) => (float[p, q] y) { y = Reshape(x, s) }")
    agree(same, [{"x": numbers(4, 6), "s": np.array(s)} for s in ([0, 6], [12, -1], [-1, 0])])


def test_flattens_of_free_axes() -> None:
    nodes = [f"Flatten<axis = {axis}>(x)" for axis in (0, 1, 2, 3, -1, -2)]
    model = several("float[b, n, 4] x", "float", nodes)
    agree(model, [{"x": numbers(2, 3, 4)}, {"x": numbers(1, 1, 4)}])


def test_squeeze_of_an_axis_that_is_free() -> None:
    model = parsed("""
        g (float[b, n, 4] x) => (float[n, 4] y)
        <int64[1] axes = {0}> { y = Squeeze(x, axes) }""")
    agree(model, {"x": numbers(1, 3, 4)})


def test_squeeze_of_all_free_axes_is_refused() -> None:
    model = parsed("g (float[b, 4] x) => (float[n] y) { y = Squeeze(x) }")
    assert "depend on the input's sizes" in refusals(model)[0].reason


def test_unsqueeze_and_scalars() -> None:
    model = parsed("""
        g (float[3] x) => (float[1, 1] y, float z)
        <int64[1] first = {0}, int64 i = {2}, int64[2] axes = {0, 1}> {
            s = Gather<axis = 0>(x, i)
            y = Unsqueeze(s, axes)
            t = Squeeze(y)
            z = Identity(t)
        }""")
    agree(model, {"x": numbers(3)})


@pytest.mark.parametrize("target", [15, 18])
def test_expand_to_free_sizes(target: int) -> None:
    """A mask of a batch, to the sizes of what it masks."""
    model = parsed("""
        g (float[1, 1, n] mask, float[b, 2, n] x) => (float[b, 2, n] y)
        { s = Shape(x) y = Expand(mask, s) }""")
    feeds = [{"mask": numbers(1, 1, n), "x": numbers(b, 2, n)} for b, n in ((2, 3), (1, 4))]
    agree(model, feeds, target=target)


def test_expand_where_either_side_is_one() -> None:
    """Which axes have size 1 is only known when it runs; -0 and NaN stay what they are."""
    model = parsed("g (float[a, b] x, int64[2] s) => (float[p, q] y) { y = Expand(x, s) }")
    feeds = [
        {"x": numbers(3, 1), "s": np.array([1, 4])},
        {"x": numbers(1, 2), "s": np.array([5, 1])},
        {"x": np.array([[-0.0, np.nan]], np.float32), "s": np.array([2, 2])},
    ]
    found = agree(model, feeds)
    assert np.all(np.signbit(found["y"][:, 0]))


def test_expands_of_other_types() -> None:
    kinds = {"bool": np.bool_, "int64": np.int64, "float16": np.float16}
    ports = ", ".join(f"{kind}[a, b] x{i}" for i, kind in enumerate(kinds))
    outputs = ", ".join(f"{kind}[] y{i}" for i, kind in enumerate(kinds))
    nodes = "\n".join(f"y{i} = Expand(x{i}, s)" for i in range(len(kinds)))
    model = parsed(f"g ({ports}, int64[2] s) => ({outputs}) {{ {nodes} }}")
    x = np.array([[0], [1], [1]])
    feeds = {f"x{i}": x.astype(dtype) for i, dtype in enumerate(kinds.values())}
    agree(model, {**feeds, "s": np.array([1, 4])})


def test_expand_to_a_constant() -> None:
    model = parsed("""
        g (float[b, 1, 3] x) => (float[2, b, 4, 3] y)
        <int64[4] s = {2, 1, 4, 1}> { y = Expand(x, s) }""")
    agree(model, [{"x": numbers(2, 1, 3)}, {"x": numbers(1, 1, 3)}])


def test_tile_of_computed_repeats() -> None:
    model = parsed("g (int64[a, 2] x, int64[2] r) => (int64[p, q] y) { y = Tile(x, r) }")
    agree(model, [{"x": whole(3, 2), "r": np.array([2, 1])}, {"x": whole(1, 2), "r": whole(2) + 1}])


def test_shape_and_size_of_free_axes() -> None:
    model = parsed("""
        g (float[b, 3, n] x) => (int64[3] s, int64[1] last, int64[2] some, int64[1] known, int64 e)
        {
            s = Shape(x)
            last = Shape<start = -1>(x)
            some = Shape<start = 0, end = 2>(x)
            known = Shape<start = 1, end = -1>(x)
            e = Size(x)
        }""")
    agree(model, [{"x": numbers(2, 3, 5)}, {"x": numbers(1, 3, 1)}])


def test_transpose_without_axes_named() -> None:
    model = parsed("g (bool[b, 3, 2] x) => (bool[2, 3, b] y) { y = Transpose(x) }")
    agree(model, {"x": numbers(4, 3, 2) > 0})


def test_six_axes_are_refused_by_name() -> None:
    model = parsed("""
        g (float[2, 3] x) => (float[1, 1, 1, 1, 2, 3] y)
        <int64[4] axes = {0, 1, 2, 3}> { y = Unsqueeze(x, axes) }""")
    assert "more than 5 axes" in refusals(model)[0].reason
