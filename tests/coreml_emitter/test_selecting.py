"""What is chosen at run time, and what is made of nothing but sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml_emitter.running import agree, emitted, kinds, numbers, parsed, refusals
from tests.coreml_emitter.several import several

DTYPES = {"float": np.float32, "int64": np.int64}


def test_non_zero_of_free_axes() -> None:
    model = parsed("g (float[b, n] x) => (int64[2, k] y) { y = NonZero(x) }")
    agree(model, [{"x": np.round(numbers(b, 4))} for b in (2, 3)])


def test_compress() -> None:
    nodes = [f"Compress{axis}(x, c)" for axis in ("", "<axis = 1>", "<axis = -2>")]
    model = several("bool[b, n] x, bool[m] c", "bool", nodes)
    condition = np.array([True, False, True])
    agree(model, [{"x": numbers(b, 4) > 0, "c": condition} for b in (3, 4)])


@pytest.mark.parametrize("kind", ["float", "int64"])
def test_one_hot_of_computed_values(kind: str) -> None:
    """Indices out of bounds are "off" everywhere; negative ones count from the end."""
    nodes = [f"OneHot<axis = {axis}>(i, depth, v)" for axis in (0, 1, -1)]
    model = several(f"int64[b, 2] i, {kind}[2] v", kind, nodes, "int64 depth = {4}")
    index = np.array([[0, -1], [-4, 3], [4, -5]])
    agree(model, {"i": index, "v": np.array([2, 5], DTYPES[kind])})


def test_one_hot_of_a_computed_depth() -> None:
    model = parsed("""
        g (float[b] i, float[1] depth) => (float[b, d] y)
        <float[2] v = {0, 1}> { y = OneHot(i, depth, v) }""")
    index = np.array([1, -2, 0], np.float32)
    agree(model, [{"i": index, "depth": np.array([d], np.float32)} for d in (3, 5)])


@pytest.mark.parametrize(("seq", "batch"), [(0, 1), (1, 0)])
def test_reverse_sequence(seq: int, batch: int) -> None:
    model = parsed(f"""
        g (float[t, b, 2] x, int64[n] lengths) => (float[t, b, 2] y)
        {{ y = ReverseSequence<time_axis = {seq}, batch_axis = {batch}>(x, lengths) }}""")
    for lengths in ([1, 3, 2], [3, 1, 3]):
        agree(model, {"x": numbers(3, 3, 2), "lengths": np.array(lengths)})


@pytest.mark.parametrize("upper", [0, 1])
def test_trilus_of_free_sizes(upper: int, tmp_path: Any) -> None:
    """NaN goes where nothing is kept, too."""
    diagonals = {"a": [-2], "b": [-1], "c": [0], "d": [1], "e": [2]}
    nodes = [f"Trilu<upper = {upper}>(x, {k})" for k in diagonals]
    weights = ", ".join(f"int64 {name} = {{{k}}}" for name, (k,) in diagonals.items())
    model = several("float[b, n, m] x", "float", nodes, weights)
    x = np.full((2, 3, 4), np.nan, np.float32)
    agree(model, [{"x": numbers(2, 4, 3)}, {"x": x}])
    assert "band_part" not in kinds(emitted(model, tmp_path))  # its zeros are products


def test_trilus_of_integers() -> None:
    nodes = [f"Trilu<upper = {upper}>(x, k)" for upper in (0, 1)]
    model = several("int64[b, n, m] x", "int64", nodes, "int64 k = {0}")
    agree(model, {"x": np.arange(24).reshape(2, 3, 4)})


def test_trilu_of_a_computed_diagonal() -> None:
    model = parsed("g (bool[n, m] x, int64 k) => (bool[n, m] y) { y = Trilu(x, k) }")
    agree(model, [{"x": numbers(4, 5) > -1, "k": np.asarray(k)} for k in (-1, 0, 2)])


@pytest.mark.parametrize("kind", ["int64", "float"])
def test_range_of_computed_limits(kind: str) -> None:
    model = several(f"{kind} a, {kind} b, {kind} c", kind, ["Range(a, b, c)"])
    limits = [(0, 5, 1), (3, 12, 4), (5, -3, -2)]
    feeds = [[np.asarray(i, DTYPES[kind]) for i in three] for three in limits]
    agree(model, [dict(zip("abc", three, strict=True)) for three in feeds])


def test_positions_of_a_free_length() -> None:
    """Range over what Shape gives, as in transformers."""
    model = parsed("""
        g (float[b, n] x) => (int64[n] y)
        <int64 one = {1}, int64 zero = {0}> {
            s = Shape(x)
            n = Gather(s, one)
            y = Range(zero, n, one)
        }""")
    agree(model, [{"x": numbers(2, n)} for n in (1, 6)])


def test_constant_of_computed_sizes() -> None:
    model = parsed("""
        g (float[b, n] x, int64[2] t) => (float[b, n] y, int64[p, q] z, bool[b, n] w) {
            s = Shape(x)
            y = ConstantOfShape<value = float[1] {-1.5}>(s)
            z = ConstantOfShape<value = int64[1] {7}>(t)
            w = ConstantOfShape<value = bool[1] {1}>(s)
        }""")
    agree(model, [{"x": numbers(2, n), "t": np.array([n, 3])} for n in (1, 4)])


def test_a_constant_of_64_bits_is_refused() -> None:
    model = parsed("""
        g (int64[2] t) => (int64[p, q] z)
        { z = ConstantOfShape<value = int64[1] {-9223372036854775808}>(t) }""")
    assert "fit into 32 bits" in refusals(model)[0].reason


def test_eye_like_of_free_sizes() -> None:
    nodes = [f"EyeLike<dtype = 1, k = {k}>(x)" for k in (-1, 0, 2)]
    model = several("int32[n, m] x", "float", nodes)
    agree(model, [{"x": np.zeros(shape, np.int32)} for shape in ((3, 4), (5, 2))])


@pytest.mark.parametrize(("ordered", "kind"), [(0, "float"), (1, "int64")])
def test_unique_elements(ordered: int, kind: str) -> None:
    dtype = DTYPES[kind]
    model = parsed(f"""
        g ({kind}[a, b] x) => ({kind}[k] y, int64[k] i, int64[n] j, int64[k] c)
        {{ y, i, j, c = Unique<sorted = {ordered}>(x) }}""")
    x = np.array([[2, 1, 1], [3, 4, 3], [2, -5, 1]], dtype)
    agree(model, [{"x": x}, {"x": np.zeros((2, 2), dtype)}])


@pytest.mark.parametrize(("axis", "ordered"), [(0, 1), (1, 0), (-1, 1)])
def test_unique_slices(axis: int, ordered: int) -> None:
    model = parsed(f"""
        g (float[a, b, c] x) => (float[p, q, r] y, int64[k] i, int64[n] j, int64[k] c)
        {{ y, i, j, c = Unique<axis = {axis}, sorted = {ordered}>(x) }}""")
    x = np.random.default_rng(3).integers(0, 2, (3, 4, 2)).astype(np.float32)
    agree(model, [{"x": x}, {"x": x[:1]}, {"x": x[:, :1]}])


def test_non_max_suppression_of_many_boxes() -> None:
    """Ties, classes, images, both kinds of thresholds, and limits that are computed."""
    model = parsed("""
        g (float[n, b, 4] boxes, float[n, c, b] scores, int64[1] most, float[1] iou, float[1] low)
        => (int64[k, 3] y) { y = NonMaxSuppression(boxes, scores, most, iou, low) }""")
    random = np.random.default_rng(5)
    corner = random.random((2, 30, 2)).astype(np.float32)
    boxes = np.concatenate([corner, corner + random.random((2, 30, 2)) * 0.5], 2)
    scores = np.round(random.random((2, 3, 30)), 1).astype(np.float32)
    limits = [(4, 0.3, 0.2), (100, 0.6, 0.0), (1, 0.1, 0.5)]
    fed = {"boxes": boxes.astype(np.float32), "scores": scores}
    named = [dict(zip(("most", "iou", "low"), items, strict=True)) for items in limits]
    types = {"most": np.int64, "iou": np.float32, "low": np.float32}
    agree(model, [{**fed, **{k: np.array([v], types[k]) for k, v in n.items()}} for n in named])


def test_non_max_suppression_of_centres_without_thresholds() -> None:
    model = parsed("""
        g (float[1, 12, 4] boxes, float[1, 1, 12] scores) => (int64[k, 3] y)
        <int64 most = {5}, float iou = {0.4}>
        { y = NonMaxSuppression<center_point_box = 1>(boxes, scores, most, iou) }""")
    boxes = np.random.default_rng(1).random((1, 12, 4)).astype(np.float32)
    agree(model, {"boxes": boxes, "scores": numbers(1, 1, 12)})


def test_too_many_boxes_are_refused() -> None:
    model = parsed("""
        g (float[1, 20000, 4] boxes, float[1, 80, 20000] scores) => (int64[k, 3] y)
        <int64 most = {5}> { y = NonMaxSuppression(boxes, scores, most) }""")
    assert "20000 boxes of 80 classes" in refusals(model)[0].reason
