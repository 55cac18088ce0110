"""MaxPool, AveragePool, LpPool, their kin, and LRN, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from converter.ir import Model
from emitters.tflite.lowering import lower
from tests.tflite_emitter.running import Array, agree, kinds, numbers, parsed


def _model(op: str, x: str, attributes: str, dtype: str = "float") -> Model:
    """One pooling; ``x`` is the input's shape as text."""
    free = ",".join(f"o{axis}" for axis in range(len(x.split(","))))
    return parsed(f"g ({dtype}[{x}] x) => ({dtype}[{free}] y) {{ y = {op} <{attributes}> (x) }}")


WINDOWS = {
    "one axis": ("2,3,9", "kernel_shape=[3], strides=[2], pads=[1,1]"),
    "two axes": ("1,3,7,8", "kernel_shape=[2,3], strides=[2,1], pads=[0,1,1,1]"),
    "three axes": ("2,2,5,6,7", "kernel_shape=[2,3,2], strides=[2,2,1], pads=[1,0,0,0,1,1]"),
    "ceil": ("1,2,6,7", "kernel_shape=[3,3], strides=[2,2], ceil_mode=1"),
    "ceil with pads": (
        "1,2,7,8", "kernel_shape=[3,2], strides=[3,2], pads=[1,1,1,1], ceil_mode=1",
    ),
    "ceil, last window outside": (
        "1,2,4,4", "kernel_shape=[2,2], strides=[3,3], pads=[1,1,1,1], ceil_mode=1",
    ),
    "ceil, one axis": ("1,2,10", "kernel_shape=[3], strides=[4], pads=[1,1], ceil_mode=1"),
    "ceil, three axes": (
        "1,2,5,6,7", "kernel_shape=[2,3,2], strides=[2,2,3], pads=[1,0,1,0,1,0], ceil_mode=1",
    ),
    "dilated": ("1,3,9,10", "kernel_shape=[3,2], dilations=[2,3], strides=[1,2], pads=[1,1,0,1]"),
    "dilated, three axes": ("1,2,6,7,6", "kernel_shape=[2,2,3], dilations=[2,3,1]"),
    "same upper": ("1,2,7,8", 'kernel_shape=[3,2], strides=[2,3], auto_pad="SAME_UPPER"'),
    "same lower": ("1,2,7,8", 'kernel_shape=[3,2], strides=[2,3], auto_pad="SAME_LOWER"'),
}  # fmt: skip


def _x(shape: str) -> dict[str, Array]:
    return {"x": numbers(*map(int, shape.split(","))) - 2}


@pytest.mark.parametrize("name", WINDOWS)
def test_max(name: str, tmp_path: Path) -> None:
    x, window = WINDOWS[name]
    agree(_model("MaxPool", x, window), _x(x), tmp_path)


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("name", WINDOWS)
def test_average(name: str, counted: int, tmp_path: Path) -> None:
    x, window = WINDOWS[name]
    agree(_model("AveragePool", x, f"{window}, count_include_pad={counted}"), _x(x), tmp_path)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("name", ["one axis", "two axes", "three axes", "dilated", "same lower"])
def test_lp(name: str, order: int, tmp_path: Path) -> None:
    x, window = WINDOWS[name]
    agree(_model("LpPool", x, f"{window}, p={order}"), _x(x), tmp_path)


FREE: dict[str, tuple[str, str, list[tuple[int, ...]]]] = {
    "one axis": ("n,3,l", "kernel_shape=[3], strides=[2], pads=[1,1]", [(1, 3, 9), (2, 3, 12)]),
    "pads": (
        "1,2,h,w", "kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]",
        [(1, 2, 7, 8), (1, 2, 6, 5)],
    ),
    "ceil": (
        "1,2,h,w", "kernel_shape=[3,3], strides=[2,2], ceil_mode=1", [(1, 2, 7, 8), (1, 2, 6, 5)],
    ),
    "ceil, last window outside": (
        "1,2,h,w", "kernel_shape=[2,3], strides=[3,3], pads=[1,1,1,1], ceil_mode=1",
        [(1, 2, 4, 4), (1, 2, 6, 5), (1, 2, 8, 9)],
    ),
    "same lower": (
        "1,2,h,w", 'kernel_shape=[3,2], strides=[2,3], auto_pad="SAME_LOWER"',
        [(1, 2, 7, 8), (1, 2, 10, 5)],
    ),
    "same upper": (
        "n,2,h,w", 'kernel_shape=[3,2], strides=[2,3], auto_pad="SAME_UPPER"', [(2, 2, 7, 8)],
    ),
    "dilated": ("1,2,h,8", "kernel_shape=[2,3], dilations=[3,2], pads=[1,1,1,0]", [(1, 2, 7, 8)]),
    "three axes": ("n,2,4,5,6", "kernel_shape=[2,2,2], strides=[2,2,2]", [(3, 2, 4, 5, 6)]),
}  # fmt: skip


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "Counted"])
@pytest.mark.parametrize("name", FREE)
def test_over_free_dimensions(name: str, op: str, tmp_path: Path) -> None:
    x, window, sizes = FREE[name]
    if op == "Counted":
        op, window = "AveragePool", f"{window}, count_include_pad=1"
    for size in sizes:
        agree(_model(op, x, window), {"x": numbers(*size) - 2}, tmp_path)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", ["one axis", "two axes", "dilated", "ceil"])
def test_the_largest_of_plain_integers(name: str, dtype: str, tmp_path: Path) -> None:
    x, window = WINDOWS[name]
    limits = np.iinfo(dtype)
    shape = tuple(map(int, x.split(",")))
    values = np.random.default_rng(0).integers(limits.min, limits.max, shape).astype(dtype)
    agree(_model("MaxPool", x, window, dtype), {"x": values}, tmp_path)


def test_ceil_that_is_same_needs_no_padding() -> None:
    model = _model("MaxPool", "1,2,6,6", "kernel_shape=[3,3], strides=[2,2], ceil_mode=1")
    assert kinds(model) == ["TRANSPOSE", "MAX_POOL_2D", "TRANSPOSE"]


INDICES = {
    "two axes": ("2,3,6,7", "kernel_shape=[2,2], strides=[2,2]"),
    "overlapping": ("1,2,6,7", "kernel_shape=[3,2], strides=[2,1], pads=[1,1,1,0]"),
    "dilated": ("1,2,6,7", "kernel_shape=[2,2], dilations=[2,3]"),
    "columns first": ("1,2,6,7", "kernel_shape=[2,2], storage_order=1"),
    "one axis": ("2,3,8", "kernel_shape=[3], strides=[3]"),
    "three axes": ("1,2,4,4,6", "kernel_shape=[2,2,2], strides=[2,2,3]"),
    "ceil": ("1,2,5,6", "kernel_shape=[3,3], strides=[2,2], ceil_mode=1"),
}


def _with_indices(x: str, window: str) -> Model:
    free = ",".join(f"o{axis}" for axis in range(len(x.split(","))))
    body = f"{{ y, i = MaxPool <{window}> (x) }}"
    return parsed(f"g (float[{x}] x) => (float[{free}] y, int64[{free}] i) {body}")


@pytest.mark.parametrize("name", INDICES)
def test_indices(name: str, tmp_path: Path) -> None:
    x, window = INDICES[name]
    agree(_with_indices(x, window), _x(x), tmp_path)


def test_indices_of_a_free_batch(tmp_path: Path) -> None:
    model = _with_indices("n,3,6,7", "kernel_shape=[2,2], strides=[2,2]")
    agree(model, {"x": numbers(3, 3, 6, 7)}, tmp_path)


@pytest.mark.parametrize("batch", ["2", "n"])
def test_unpool(batch: str, tmp_path: Path) -> None:
    model = parsed(f"""
g (float[{batch},3,6,8] x) => (float[o,3,6,8] y) {{
  a, i = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)
  b = Exp (a)
  y = MaxUnpool <kernel_shape=[2,2], strides=[2,2]> (b, i)
}}""")
    agree(model, {"x": numbers(2, 3, 6, 8)}, tmp_path)


def test_an_unpooling_that_overlaps_is_refused() -> None:
    model = parsed("""
g (float[1,1,2,2] x, int64[1,1,2,2] i) => (float[1,1,3,3] y)
  { y = MaxUnpool <kernel_shape=[2,2], strides=[1,1]> (x, i) }""")
    (refusal,) = lower(model).refusals
    assert "overlap" in refusal.reason


@pytest.mark.parametrize("shape", ["1,7,4,5", "n,7,h,w"])
def test_lrn(shape: str, tmp_path: Path) -> None:
    model = _model("LRN", shape, "size=3, alpha=0.5, beta=0.6, bias=1.5")
    agree(model, {"x": numbers(1, 7, 4, 5)}, tmp_path)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_global_lp(order: int, tmp_path: Path) -> None:
    model = _model("GlobalLpPool", "2,3,4,5", f"p={order}")
    agree(model, {"x": numbers(2, 3, 4, 5)}, tmp_path, rtol=1e-4)


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
def test_a_window_larger_than_the_image_pads_nothing(op: str, counted: int, tmp_path: Path) -> None:
    """A mean over all there is, written as one over more than there ever is."""
    attributes = "kernel_shape=[900,900], strides=[900,900], ceil_mode=1"
    if op == "AveragePool":
        attributes += f", count_include_pad={counted}"
    model = parsed(f"g (float[n,3,5,4] x) => (float[n,3,1,1] y) {{ y = {op} <{attributes}> (x) }}")
    assert not {"PAD", "PADV2"} & set(kinds(model))
    agree(model, {"x": numbers(2, 3, 5, 4)}, tmp_path)


def test_one_window_over_a_border_of_its_own(tmp_path: Path) -> None:
    model = parsed("""
g (float[1,3,5,4] x) => (float[1,3,1,2] y)
  { y = AveragePool <kernel_shape=[7,3], strides=[2,2], pads=[1,1,1,1]> (x) }""")
    agree(model, {"x": numbers(1, 3, 5, 4)}, tmp_path)


LARGE = {
    "same": "kernel_shape=[5,5], pads=[2,2,2,2]",
    "uneven": "kernel_shape=[5,3], pads=[0,1,2,1]",
    "auto": 'kernel_shape=[4,4], auto_pad="SAME_LOWER"',
    "none": "kernel_shape=[4,6]",
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("size", ["7,8", "h,w"])
def test_the_largest_of_columns_and_then_of_rows(name: str, size: str, tmp_path: Path) -> None:
    model = parsed(f"""
g (float[n,3,{size}] x) => (float[n,3,p,q] y) {{ y = MaxPool <{LARGE[name]}> (x) }}""")
    assert kinds(model).count("MAX_POOL_2D") == 2
    agree(model, {"x": numbers(2, 3, 7, 8)}, tmp_path)


def test_the_same_of_int8(tmp_path: Path) -> None:
    model = parsed("""
g (float[1,3,7,8] x) => (float[1,3,7,8] y) <float s = {0.05}, int8 z = {3}>
  { a = QuantizeLinear (x, s, z) b = DequantizeLinear (a, s, z)
    c = MaxPool <kernel_shape=[5,5], pads=[2,2,2,2]> (b)
    d = QuantizeLinear (c, s, z) y = DequantizeLinear (d, s, z) }""")
    assert kinds(model).count("MAX_POOL_2D") == 2
    agree(model, {"x": numbers(1, 3, 7, 8)}, tmp_path)
