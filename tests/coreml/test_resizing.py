"""Resizing: values from the sampling grids that coremltools documents, in numpy; which pixels are
repeated and left out, listed by hand or computed as fractions."""

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, Body, check, drawing, op
from tests.coreml.test_sampling import MODES, row

F = np.float32
X = drawing(8, -2, 2)(2, 3, 4, 5)
FREE = [None, {"x": [0, 2, 3]}]


def along(x: Array, axis: int, places: Array) -> Array:
    """Linear interpolation along an axis."""
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    shape = [1] * x.ndim
    shape[axis] = -1
    part = (places - low).reshape(shape)
    return np.asarray(x.take(low, axis) * (1 - part) + x.take(high, axis) * part)


def bilinear(x: Array, height: int, width: int, mode: str) -> Array:
    rows = along(x.astype(np.float64), -2, row(0, x.shape[-2] - 1, height, mode))
    return along(rows, -1, row(0, x.shape[-1] - 1, width, mode)).astype(x.dtype)


def _to(height: int, width: int, **how: Any) -> Body:
    return op.resize_bilinear(target_size_height=height, target_size_width=width, **how)


def _up(kind: str, height: Any, width: Any, **how: Any) -> Body:
    factors = {"scale_factor_height": height, "scale_factor_width": width}
    return getattr(op, f"upsample_{kind}")(**factors, **how)  # type: ignore[no-any-return]


def _resized(shape: list[int] | None, dims: int, mode: str, kind: str = "LINEAR") -> Body:
    """A size that isn't said is an input."""
    how: dict[str, Any] = {"interpolation_mode": kind, "sampling_mode": mode}
    how |= {"resized_dims": np.uint32(dims)} | ({} if shape is None else {"shape": shape})
    return op.resize(**how)


@pytest.mark.parametrize("mode", MODES)
def test_bilinear(mode: str) -> None:
    """Of resize, the last two axes of the shape; 0 keeps a size."""
    sizes = [(7, 8), (2, 3), (1, 9), (6, 1), (4, 5)]
    cases = [(_to(*size, sampling_mode=mode), bilinear(X, *size, mode)) for size in sizes]
    cases += [
        (_resized([1, 7, 0], 2, mode), bilinear(X, 7, 5, mode)),
        (_resized([9], 1, mode), along(X.astype(np.float64), -1, row(0, 4, 9, mode))),
    ]
    check(cases, {"x": X})


@pytest.mark.parametrize("mode", ["UNALIGN_CORNERS", "OFFSET_CORNERS"])
def test_a_computed_size(mode: str) -> None:
    check([(_resized(None, 2, mode), bilinear(X, 7, 5, mode))],
          {"x": X, "shape": np.array([7, 0], np.int32)})  # fmt: skip


# -- the nearest -------------------------------------------------------------------------


def corners(old: int, new: int) -> list[int]:
    return [floor(Fraction(i * old, new)) for i in range(new)]


def centers(old: int, new: int) -> list[int]:
    return [floor((i + Fraction(1, 2)) * old / new) for i in range(new)]


def taken(x: Array, rows: list[int], columns: list[int]) -> Array:
    return x.take(rows, -2).take(columns, -1)


FACTORS: dict[tuple[float, float], tuple[list[int], list[int]]] = {
    (1.12, 0.67): ([0, 1, 2, 3], [0, 1, 3]),
    (0.50001, 0.8): ([0, 2], [0, 1, 2, 3]),  # 0.8 is a little more than 4/5 in float32
    (1.5, 1.3): ([0, 0, 1, 2, 2, 3], [0, 0, 1, 2, 3, 4]),
}
"""Which rows and columns factors with fractions take."""


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("free", FREE)
def test_nearest(free: Any, dtype: Any) -> None:
    x = X.astype(dtype)
    cases = [(_up("nearest_neighbor", 3, 2), x.repeat(3, 2).repeat(2, 3))]
    for (height, width), (rows, columns) in FACTORS.items():
        assert (rows, columns) == (corners(4, len(rows)), corners(5, len(columns)))
        cases.append((_up("nearest_neighbor", F(height), F(width)), taken(x, rows, columns)))
    nearest = "NEAREST_NEIGHBOR"
    cases += [
        (_resized([8, 10], 2, "DEFAULT", nearest), x.repeat(2, 2).repeat(2, 3)),
        (_resized([2, 6, 3], 2, "DEFAULT", nearest), taken(x, [0, 1, 1, 2, 3, 3], [0, 2, 4])),
        (_resized([3, 0], 2, "DEFAULT", nearest), taken(x, [0, 2, 3], [0, 1, 2, 3, 4])),
    ]
    check(cases, {"x": x}, free=free)


def test_nearest_of_known_sizes() -> None:
    """Of other modes those where all roundings agree."""
    cases = [
        (op.resize_nearest_neighbor(target_size_height=height, target_size_width=width),
         taken(X, centers(4, height), centers(5, width)))
        for height, width in [(8, 15), (4, 10), (6, 3), (3, 7)]
    ]  # fmt: skip
    np.testing.assert_array_equal(cases[0][1], X.repeat(2, 2).repeat(3, 3))
    nearest = "NEAREST_NEIGHBOR"
    cases += [
        (_resized([8, 10], 2, "UNALIGN_CORNERS", nearest), X.repeat(2, 2).repeat(2, 3)),
        (_resized([4, 3], 2, "ALIGN_CORNERS", nearest), taken(X, [0, 1, 2, 3], [0, 2, 4])),
    ]
    check(cases, {"x": X})


def test_nearest_of_a_computed_size() -> None:
    """Two pixels made three are 0 1 1, the value that coremltools' test of it expects."""
    x, size = X[:, :, :2], np.array([3, 0], np.int32)
    body = _resized(None, 2, "DEFAULT", "NEAREST_NEIGHBOR")
    check([(body, taken(x, [0, 1, 1], [0, 1, 2, 3, 4]))], {"x": x, "shape": size})
