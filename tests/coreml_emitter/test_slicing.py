"""Slice, Split, Concat and the ways to pad, of sizes and limits that are free or computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.coreml_emitter.running import agree, emitted, kinds, numbers, parsed, refusals
from tests.coreml_emitter.several import several, vectors

Array = np.ndarray[Any, Any]
FAR = 2**63 - 1
MODES = ("constant", "reflect", "edge", "wrap")
DTYPES = {"float": np.float32, "float16": np.float16, "int64": np.int64, "bool": np.bool_}


SLICES = [
    (0, FAR, 1), (1, -1, 1), (-3, FAR, 1), (0, FAR, 2), (1, 4, 2), (0, 2, 1), (-2, -1, 1),
    (FAR, -FAR, -1), (-1, -FAR, -1), (-1, -FAR, -2), (3, 0, -1), (-2, -4, -1), (3, -FAR, -2),
    (-1, 0, -3), (FAR, 1, -2), (0, 100, 1), (-100, 3, 1), (100, -100, -1),
]  # fmt: skip
"""Starts, ends and steps."""


def test_slices_of_a_free_axis() -> None:
    weights = [
        vectors(**{f"s{i}": [start], f"e{i}": [end], f"t{i}": [step]})
        for i, (start, end, step) in enumerate(SLICES)
    ]
    nodes = [f"Slice(x, s{i}, e{i}, axis, t{i})" for i in range(len(SLICES))]
    constants = ", ".join([*weights, vectors(axis=[1])])
    model = several("float[b, n, 2] x", "float", nodes, constants)
    agree(model, [{"x": numbers(2, n, 2)} for n in (5, 6)])


def test_slices_of_known_axes() -> None:
    cases = [
        ([1, -3], [FAR, -FAR], [0, -1], [2, -2]),
        ([-1, 0], [-FAR, FAR], [1, 0], [-1, 3]),
        ([-100, 100], [100, -100], [1, 2], [1, -3]),
    ]
    weights = [
        vectors(**{f"{name}{i}": items for name, items in zip("seat", case, strict=True)})
        for i, case in enumerate(cases)
    ]
    nodes = [f"Slice(x, s{i}, e{i}, a{i}, t{i})" for i in range(len(cases))]
    model = several("int64[4, 5, 7] x", "int64", nodes, ", ".join(weights))
    agree(model, {"x": np.arange(140).reshape(4, 5, 7)})


@pytest.mark.parametrize("sign", [1, -1])
def test_slices_with_computed_limits(sign: int) -> None:
    nodes = ["Slice(x, s, e, axis, one)", "Slice(x, s, e, axis, two)"]
    weights = vectors(axis=[1], one=[sign], two=[2 * sign])
    model = several("bool[b, n] x, int64[1] s, int64[1] e", "bool", nodes, weights)
    x = numbers(2, 9) > 0
    limits = [(1, 8), (-7, -1), (2, 5)] if sign > 0 else [(8, 1), (-1, -7), (5, 2), (-1, 3)]
    agree(model, [{"x": x, "s": np.array([s]), "e": np.array([e])} for s, e in limits])


def test_slice_to_a_computed_size() -> None:
    """The beginning of a table, as long as the input."""
    model = parsed(f"""
        g (float[b, n] x, float[1, 16] table) => (float[b, n] y)
        <{vectors(zero=[0], one=[1], axis=[1])}> {{
            s = Shape(x)
            n = Gather(s, one)
            t = Slice(table, zero, n, axis)
            y = Add(x, t)
        }}""")
    table = numbers(1, 16)
    agree(model, [{"x": numbers(2, n), "table": table} for n in (3, 16)])


def test_slices_of_nothing_are_refused() -> None:
    model = parsed(f"""
        g (float[4] x) => (float[m] y) <{vectors(s=[3], e=[1])}> {{ y = Slice(x, s, e) }}""")
    assert "without elements" in refusals(model)[0].reason


def test_split_of_a_free_axis() -> None:
    model = parsed("""
        g (float[b, n] x) => (float[b, p] y, float[b, q] z, float[b, r] w)
        { y, z, w = Split<axis = 1, num_outputs = 3>(x) }""")
    agree(model, [{"x": numbers(2, n)} for n in (6, 7, 11)])


def test_split_by_computed_sizes() -> None:
    model = parsed("""
        g (int64[n] x, int64[2] s) => (int64[p] y, int64[q] z) { y, z = Split(x, s) }""")
    agree(model, [{"x": np.arange(7), "s": np.array([a, 7 - a])} for a in (1, 5)])


def test_split_by_sizes_of_a_free_axis() -> None:
    model = parsed(f"""
        g (float[b, n] x) => (float[b, 2] y, float[b, 3] z)
        <{vectors(s=[2, 3])}> {{ y, z = Split<axis = -1>(x, s) }}""")
    agree(model, {"x": numbers(2, 5)})


def test_concat_of_booleans_and_free_axes() -> None:
    model = parsed("""
        g (bool[b, n] x, bool[b, m] y) => (bool[b, k] z) { z = Concat<axis = -1>(x, y, x) }""")
    agree(model, [{"x": numbers(2, n) > 0, "y": numbers(2, 3) > 0} for n in (1, 4)])


@pytest.mark.parametrize("kind", ["float", "float16", "int64", "bool"])
def test_pads_of_every_axis(kind: str) -> None:
    nodes = [f'Pad<mode = "{mode}">(x, pads)' for mode in MODES]
    model = several(f"{kind}[b, 3, n, 4] x", kind, nodes, vectors(pads=[0, 1, 2, 0, 0, 2, 1, 3]))
    shapes = [(2, 3, 5, 4), (1, 3, 3, 4)]
    agree(model, [{"x": (numbers(*shape) * 10).astype(DTYPES[kind])} for shape in shapes])


def test_pads_that_cut() -> None:
    nodes = [f'Pad<mode = "{mode}">(x, pads)' for mode in MODES]
    model = several("float[b, n] x", "float", nodes, vectors(pads=[0, -1, 0, 2]))
    agree(model, [{"x": numbers(2, 6)}, {"x": numbers(1, 4)}])


@pytest.mark.parametrize("kind", ["float", "int64"])
def test_pads_by_computed_amounts(kind: str) -> None:
    """Negative ones too. MIL's pad takes none where it has more than one axis."""
    nodes = [f'Pad<mode = "{mode}">(x, pads, , axes)' for mode in MODES]
    model = several(f"{kind}[b, n] x, int64[2] pads", kind, nodes, vectors(axes=[-1]))
    x = (numbers(2, 5) * 10).astype(DTYPES[kind])
    feeds = [{"x": x, "pads": np.array(pads)} for pads in ([1, 2], [0, 3], [-2, 1], [2, -1])]
    agree(model, feeds)


def test_pads_by_more_than_there_is() -> None:
    """Beyond what MIL's pad takes: a border wider than the axis."""
    nodes = [f'Pad<mode = "{mode}">(x, pads)' for mode in ("edge", "wrap")]
    model = several("float[1, 3] x", "float", nodes, vectors(pads=[0, 7, 0, 8]))
    agree(model, {"x": numbers(1, 3)})


@pytest.mark.parametrize("kind", ["float", "int64"])
def test_pad_with_a_computed_value(kind: str) -> None:
    model = parsed(f"""
        g ({kind}[b, 3] x, {kind} v) => ({kind}[p, q] y)
        <{vectors(pads=[1, 0, 2, 1])}> {{ y = Pad(x, pads, v) }}""")
    dtype = DTYPES[kind]
    agree(model, {"x": numbers(2, 3).astype(dtype), "v": np.asarray(7, dtype)})


def test_pad_is_one_operation_where_it_can_be(tmp_path: Any) -> None:
    model = parsed(f"""
        g (float[b, 3, h, w] x) => (float[b, 3, p, q] y)
        <{vectors(pads=[0, 0, 1, 2, 0, 0, 3, 4])}, float v = {{-2.5}}> {{ y = Pad(x, pads, v) }}""")
    assert kinds(emitted(model, tmp_path)) == ["pad"]
    agree(model, {"x": numbers(1, 3, 2, 2)})


def test_center_crop_pads_of_free_axes() -> None:
    shapes = {"s": [6, 3], "t": [3, 6], "u": [5, 2], "v": [4, 4]}
    nodes = [f"CenterCropPad<axes = [1, 2]>(x, {name})" for name in shapes]
    model = several("float[b, h, w] x", "float", nodes, vectors(**shapes))
    agree(model, [{"x": numbers(2, 4, 5)}, {"x": numbers(1, 3, 2)}, {"x": numbers(1, 7, 7)}])


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_borders_of_an_image_of_free_size_are_one_operation(mode: str, tmp_path: Path) -> None:
    """A reflection that is too wide is so in every runtime; an edge is repeated as often as it has
    to be, which pad does up to the size alone."""
    model = parsed(f"""
        g (float[1, 2, h, w] x) => (float[1, 2, p, q] y, float[1, 2, r, t] z)
        <{vectors(one=[0, 0, 1, 1, 0, 0, 1, 1], three=[0, 0, 3, 2, 0, 0, 3, 3])}> {{
            y = Pad<mode = "{mode}">(x, one)
            z = Pad<mode = "{mode}">(x, three)
        }}""")
    sizes = [(4, 6), (5, 4)] if mode == "reflect" else [(1, 6), (5, 1)]
    agree(model, [{"x": numbers(1, 2, *size)} for size in sizes], tmp_path)
    assert kinds(tmp_path / "model.mlpackage").count("pad") == (2 if mode == "reflect" else 1)
