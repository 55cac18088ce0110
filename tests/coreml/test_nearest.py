"""Pixels repeated and left out: which ones, listed by hand or computed as fractions."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import Array, agrees, compute

X = np.random.default_rng(8).standard_normal((2, 3, 4, 5)).astype(np.float32)
FREE = [None, {"x": [0, 2, 3]}]


def corners(old: int, new: int) -> list[int]:
    return [floor(Fraction(i * old, new)) for i in range(new)]


def centers(old: int, new: int) -> list[int]:
    return [floor((i + Fraction(1, 2)) * old / new) for i in range(new)]


def taken(x: Array, rows: list[int], columns: list[int]) -> Array:
    return x.take(rows, -2).take(columns, -1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("free", FREE)
def test_whole_factors(dtype: Any, free: Any) -> None:
    x = X.astype(dtype)

    def body(mb: Any, x: Any) -> Any:
        return mb.upsample_nearest_neighbor(x=x, scale_factor_height=3, scale_factor_width=2)

    (found,) = compute(body, {"x": x}, free=free)
    agrees(found, x.repeat(3, 2).repeat(2, 3))


@pytest.mark.parametrize("free", FREE)
@pytest.mark.parametrize(
    ("factors", "rows", "columns"),
    [
        ((1.12, 0.67), [0, 1, 2, 3], [0, 1, 3]),
        ((0.50001, 0.8), [0, 2], [0, 1, 2, 3]),  # 0.8 is a little more than 4/5 in float32
        ((1.5, 1.3), [0, 0, 1, 2, 2, 3], [0, 0, 1, 2, 3, 4]),
    ],
)
def test_factors_with_fractions(
    factors: tuple[float, float], rows: list[int], columns: list[int], free: Any
) -> None:
    def body(mb: Any, x: Any) -> Any:
        height, width = (np.float32(factor) for factor in factors)
        return mb.upsample_nearest_neighbor(
            x=x, scale_factor_height=height, scale_factor_width=width
        )

    assert (rows, columns) == (corners(4, len(rows)), corners(5, len(columns)))
    (found,) = compute(body, {"x": X}, free=free)
    agrees(found, taken(X, rows, columns))


def test_resize_nearest_neighbor() -> None:
    targets = [(8, 15), (4, 10), (6, 3), (3, 7)]

    def body(mb: Any, x: Any) -> list[Any]:
        return [
            mb.resize_nearest_neighbor(x=x, target_size_height=height, target_size_width=width)
            for height, width in targets
        ]

    found = compute(body, {"x": X})
    agrees(found[0], X.repeat(2, 2).repeat(3, 3))
    for made, (height, width) in zip(found, targets, strict=True):
        agrees(made, taken(X, centers(4, height), centers(5, width)))


def resized(mb: Any, x: Any, shape: Any, mode: str = "DEFAULT") -> Any:
    return mb.resize(
        x=x,
        shape=shape,
        resized_dims=np.uint32(2),
        interpolation_mode="NEAREST_NEIGHBOR",
        sampling_mode=mode,
    )


@pytest.mark.parametrize("free", FREE)
def test_resize(free: Any) -> None:
    def body(mb: Any, x: Any) -> list[Any]:
        return [resized(mb, x, [8, 10]), resized(mb, x, [2, 6, 3]), resized(mb, x, [3, 0])]

    found = compute(body, {"x": X}, free=free)
    agrees(found[0], X.repeat(2, 2).repeat(2, 3))
    agrees(found[1], taken(X, [0, 1, 1, 2, 3, 3], [0, 2, 4]))
    agrees(found[2], taken(X, [0, 2, 3], [0, 1, 2, 3, 4]))


def test_resize_to_a_computed_size() -> None:
    """Two pixels made three are 0 1 1, the value that coremltools' test of it expects."""
    x, size = X[:, :, :2], np.array([3, 0], np.int32)
    (found,) = compute(lambda mb, x, size: resized(mb, x, size), {"x": x, "size": size})
    agrees(found, taken(x, [0, 1, 1], [0, 1, 2, 3, 4]))


def test_other_modes_where_all_roundings_agree() -> None:
    def body(mb: Any, x: Any) -> list[Any]:
        return [
            resized(mb, x, [8, 10], "UNALIGN_CORNERS"),
            resized(mb, x, [4, 3], "ALIGN_CORNERS"),
        ]

    found = compute(body, {"x": X})
    agrees(found[0], X.repeat(2, 2).repeat(2, 3))
    agrees(found[1], taken(X, [0, 1, 2, 3], [0, 2, 4]))


def test_pixels_that_are_open_are_refused() -> None:
    """Of 5 pixels made 9 between the outer centers, each second lies in the middle of two."""
    with pytest.raises(UnsupportedError, match="nearest under ALIGN_CORNERS"):
        compute(lambda mb, x: resized(mb, x, [4, 9], "ALIGN_CORNERS"), {"x": X})
    with pytest.raises(UnsupportedError, match="nearest under OFFSET_CORNERS"):
        compute(lambda mb, x: resized(mb, x, [6, 5], "OFFSET_CORNERS"), {"x": X})
