"""Tensors made of numbers and shapes: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import agrees, compute

RNG = np.random.default_rng(3)
SIZES = np.array([2, 3], np.int32)


@pytest.mark.parametrize("value", [2.5, 7, True])
def test_fill(value: Any) -> None:
    def body(mb: Any, n: Any) -> Any:
        both = mb.fill(shape=n, value=value), mb.fill(shape=[3, 1], value=value)
        return [mb.cast(x=y, dtype="int32") if value is True else y for y in both]

    y, z = compute(body, {"n": SIZES})
    dtype = np.float32 if isinstance(value, float) else np.int32
    agrees(y, np.full((2, 3), value, dtype))
    agrees(z, np.full((3, 1), value, dtype))


def test_fill_like() -> None:
    x = np.zeros((2, 5), np.float32)
    (y,) = compute(lambda mb, x: mb.fill_like(ref_tensor=x, value=3), {"x": x}, free={"x": [0]})
    agrees(y, np.full((2, 5), 3, np.int32))


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float16])
def test_range_1d(dtype: Any) -> None:
    def body(mb: Any, end: Any) -> Any:
        last = mb.squeeze(x=end, axes=[0])
        return mb.range_1d(start=dtype(1), end=last, step=dtype(2))

    (y,) = compute(body, {"end": np.array([8], dtype)})
    agrees(y, np.array([1, 3, 5, 7], dtype))


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_of_what_is_no_place_is_nowhere(axis: int) -> None:
    indices = np.array([[0, 3, -1], [2, 4, 1]], np.int32)

    def body(mb: Any, i: Any, n: Any) -> Any:
        known = mb.one_hot(
            indices=i, one_hot_vector_size=4, axis=axis, on_value=2.5, off_value=-1.0
        )
        size = mb.squeeze(x=n, axes=[0])
        whether = {"on_value": True, "off_value": False}
        boolean = mb.one_hot(indices=i, one_hot_vector_size=4, axis=axis, **whether)
        counted = mb.one_hot(indices=i, one_hot_vector_size=size, axis=axis)
        return known, counted, mb.cast(x=boolean, dtype="int32")

    y, z, w = compute(body, {"i": indices, "n": np.array([4], np.int32)})
    hot = np.moveaxis(indices[..., None] == np.arange(4), -1, axis)
    agrees(y, np.where(hot, np.float32(2.5), np.float32(-1)))
    agrees(z, hot.astype(np.int32))
    agrees(w, hot.astype(np.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_band_part(dtype: Any) -> None:
    x = RNG.integers(1, 9, (2, 4, 5)).astype(dtype)
    cases = [(-1, -1), (0, -1), (1, 0), (-1, 2)]
    row, column = np.arange(4)[:, None], np.arange(5)

    def body(mb: Any, x: Any) -> Any:
        return [mb.band_part(x=x, lower=lower, upper=upper) for lower, upper in cases]

    for y, (lower, upper) in zip(compute(body, {"x": x}), cases, strict=True):
        within = ((lower < 0) | (row - column <= lower)) & ((upper < 0) | (column - row <= upper))
        agrees(y, np.where(within, x, 0).astype(dtype))


def test_what_is_outside_of_a_band_is_zero_even_where_it_was_infinite() -> None:
    x = np.full((3, 3), np.inf, np.float32)
    (y,) = compute(lambda mb, x: mb.band_part(x=x, lower=0, upper=0), {"x": x})
    agrees(y, np.where(np.eye(3) > 0, np.inf, 0).astype(np.float32))
