"""Slice, Split and Pad, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from emitters.tflite.lowering import lower
from tests.tflite_emitter.running import agree, kinds, numbers, operators, parsed, with_weights

MODES = ("constant", "edge", "reflect", "wrap")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("height", ["4", "H"])
@pytest.mark.parametrize("pads", [(0, 0, 2, 1, 0, 0, 3, 0), (0, 0, 3, -1, 0, 0, 0, 2)])
def test_padding(tmp_path: Path, mode: str, height: str, pads: tuple[int, ...]) -> None:
    text = ", ".join(map(str, pads))
    model = parsed(f"""g (float[N, 2, {height}, 5] x) => (float[N, 2, A, B] y)
        <int64[8] p = {{{text}}}, float v = {{-3}}> {{ y = Pad<mode = "{mode}">(x, p, v) }}""")
    agree(model, {"x": numbers(2, 2, 4, 5)}, tmp_path)


@pytest.mark.parametrize("mode", MODES)
def test_padding_fed_at_run_time(tmp_path: Path, mode: str) -> None:
    model = parsed(f"""g (float[N, 3, W] x, int64[4] p, float v) => (float[N, A, B] y)
        <int64[2] axes = {{2, -2}}> {{ y = Pad<mode = "{mode}">(x, p, v, axes) }}""")
    for pads in ([1, 2, 3, 0], [0, 0, 0, 0]):
        feeds = {"x": numbers(2, 3, 5), "p": np.asarray(pads, np.int64)}
        agree(model, {**feeds, "v": np.asarray(7, np.float32)}, tmp_path)


def test_padding_by_more_than_there_is(tmp_path: Path) -> None:
    model = parsed("""g (float[3] x) => (float[K] y, float[K] z) <int64[2] p = {2, 2}> {
        y = Pad<mode = "reflect">(x, p)  z = Pad<mode = "wrap">(x, p) }""")
    agree(model, {"x": numbers(3)}, tmp_path)


def test_padding_of_many_axes(tmp_path: Path) -> None:
    model = parsed("""g (float[2, 1, 3, 2, 2, 3] x) => (float[2, 1, 5, 2, 2, 4] y)
        <int64[12] p = {0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1}> { y = Pad(x, p) }""")
    agree(model, {"x": numbers(2, 1, 3, 2, 2, 3)}, tmp_path)


@pytest.mark.parametrize("limits", [(-1, -100, -1), (3, 0, -2), (1, 100, 2), (-2, 3, 1), (3, 3, 1)])
def test_slices_of_six_axes_and_of_two(tmp_path: Path, limits: tuple[int, int, int]) -> None:
    first, last, step = limits
    settings = f"""<int64[1] a = {{{first}}}, int64[1] b = {{{last}}}, int64[1] s = {{{step}}},
        int64[1] far = {{-1}}>"""
    six = parsed(f"""g (float[2, 1, 2, 1, 2, 5] x) => (float[2, 1, 2, 1, 2, K] y) {settings} {{
        y = Slice(x, a, b, far, s) }}""")
    agree(six, {"x": numbers(2, 1, 2, 1, 2, 5)}, tmp_path)
    two = parsed(
        f"g (float[N, 5] x) => (float[N, K] y) {settings} {{ y = Slice(x, a, b, far, s) }}"
    )
    agree(two, {"x": numbers(3, 5)}, tmp_path)


@pytest.mark.parametrize("count", [5, 7, 9])
def test_split_of_a_free_axis(tmp_path: Path, count: int) -> None:
    model = parsed("""g (float[2, N] x) => (float[2, A] p, float[2, B] q, float[2, C] r) {
        p, q, r = Split<axis = 1, num_outputs = 3>(x) }""")
    agree(model, {"x": numbers(2, count)}, tmp_path)


def test_split_in_parts_fed(tmp_path: Path) -> None:
    model = parsed("""g (float[6, 2] x, int64[2] s) => (float[A, 2] p, float[B, 2] q) {
        p, q = Split<axis = 0>(x, s) }""")
    agree(model, {"x": numbers(6, 2), "s": np.asarray([5, 1], np.int64)}, tmp_path)


@pytest.mark.parametrize(
    ("node", "made"),
    [
        ('c = Pad<mode = "edge">(b, p)', ["GATHER"]),
        ("c = Pad(b, p)", ["PADV2"]),
        ("c = Slice(b, h, k, i)", ["STRIDED_SLICE"]),
        ("e, c = Split<axis = 1>(b, h)", ["SPLIT_V"]),
    ],
)
def test_integers_are_moved_as_they_are(tmp_path: Path, node: str, made: list[str]) -> None:
    model = parsed(f"""g (float[N, 4] x, float s, int8 z) => (float[N, M] y)
        <int64[4] p = {{0, 1, 0, 2}}, int64[2] i = {{0, 1}}, int64[2] h = {{3, 1}},
         int64[2] k = {{9, 9}}> {{
        a = QuantizeLinear(x, s, z)
        b = DequantizeLinear(a, s, z)
        {node}
        d = QuantizeLinear(c, s, z)
        y = DequantizeLinear(d, s, z)
    }}""")
    model = with_weights(model, s=np.asarray(0.02, np.float32), z=np.asarray(3, np.int8))
    assert kinds(model) == ["QUANTIZE", *made, "DEQUANTIZE"]
    agree(model, {"x": numbers(5, 4)}, tmp_path)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "uint32", "uint64"])
@pytest.mark.parametrize(
    "node",
    ["y = Gather(x, i)", "y = Slice(x, i, j)", "y, z = Split(x, h)", "y = Concat<axis = 0>(x, x)"],
)
def test_types_that_kernels_take_and_others(tmp_path: Path, dtype: str, node: str) -> None:
    """Right, or refused: never a file that LiteRT refuses."""
    model = parsed(f"""g ({dtype}[4] x) => ({dtype}[K] y)
        <int64[1] i = {{1}}, int64[1] j = {{3}}, int64[2] h = {{2, 2}}> {{ {node} }}""")
    refusals = lower(model).refusals
    if dtype in ("bool", "uint8", "int16"):
        assert not refusals
    if refusals:
        assert dtype in refusals[0].reason
    else:
        agree(model, {"x": np.asarray([1, 0, 0, 1]).astype(dtype)}, tmp_path)


def test_reflected_by_a_gather_for_each_axis() -> None:
    model = parsed("""g (float[4, 5] x) => (float[6, 8] y) <int64[4] p = {1, 1, 1, 2}> {
        y = Pad<mode = "reflect">(x, p) }""")
    assert kinds(model) == ["GATHER", "GATHER"]


def test_tiled_as_often_as_is_computed(tmp_path: Path) -> None:
    """A query for each image of a free batch."""
    model = with_weights(
        parsed("""
g (float[n,3] x, float[1,4,2] q) => (float[n,m,k] y)
  { s = Shape <start=0, end=1> (x) one = Constant <value_ints=[1,1]> ()
    r = Concat <axis=0> (s, one) y = Tile (q, r) }"""),
        q=numbers(1, 4, 2),
    )
    agree(model, {"x": numbers(3, 3)}, tmp_path)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", ["3,2", "0,5"])
def test_borders_of_a_long_signal_alone_have_indices(mode: str, pads: str, tmp_path: Path) -> None:
    low, high = pads.split(",")
    model = parsed(f"""g (float[n, 3000, 2] x) => (float[n, m, 2] y)
        <int64[6] p = {{0, {low}, 0, 0, {high}, 0}}> {{ y = Pad<mode = "{mode}">(x, p) }}""")
    agree(model, {"x": numbers(2, 3000, 2)}, tmp_path)
    sizes = [t.data.size for op in operators(model) for t in op.inputs if t and t.data is not None]
    assert max(sizes) <= 6
