"""Elements written to where indices say: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(6)
X = RNG.uniform(1, 3, (4, 3, 5)).astype(np.float32)
MODES = ("update", "add", "sub", "mul", "div", "max", "min")


def combined(mode: str, old: Array, new: Array) -> Array:
    """What is there and what is written, by the mode."""
    made: dict[str, Any] = {
        "update": lambda: new,
        "add": lambda: old + new,
        "sub": lambda: old - new,
        "mul": lambda: old * new,
        "div": lambda: old / new,
        "max": lambda: np.maximum(old, new),
        "min": lambda: np.minimum(old, new),
    }
    found: Array = made[mode]()
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter(mode: str, axis: int) -> None:
    indices = np.array([2, 0], np.int32)
    shape = [2 if at == axis else size for at, size in enumerate(X.shape)]
    updates = RNG.uniform(1, 3, shape).astype(np.float32)
    (y,) = compute(
        lambda mb, x, u: mb.scatter(data=x, indices=indices, updates=u, axis=axis, mode=mode),
        {"x": X, "u": updates},
    )
    expected = np.moveaxis(X.copy(), axis, 0)
    expected[indices] = combined(mode, expected[indices], np.moveaxis(updates, axis, 0))
    agrees(y, np.moveaxis(expected, 0, axis))


@pytest.mark.parametrize("mode", MODES)
def test_scatter_along_axis(mode: str) -> None:
    indices = np.argsort(RNG.uniform(size=(4, 3, 5)), 1)[:, :2].astype(np.int32)
    updates = RNG.uniform(1, 3, (4, 2, 5)).astype(np.float32)
    (y,) = compute(
        lambda mb, x, i, u: mb.scatter_along_axis(data=x, indices=i, updates=u, axis=1, mode=mode),
        {"x": X, "i": indices, "u": updates},
    )
    expected, wide = X.copy(), indices.astype(np.int64)
    old = np.take_along_axis(X, wide, 1)
    np.put_along_axis(expected, wide, combined(mode, old, updates), 1)
    agrees(y, expected)


@pytest.mark.parametrize("mode", MODES)
def test_scatter_nd(mode: str) -> None:
    indices = np.array([[3, 0], [0, 2]], np.int32)
    updates = RNG.uniform(1, 3, (2, 5)).astype(np.float32)
    (y,) = compute(
        lambda mb, x, i, u: mb.scatter_nd(data=x, indices=i, updates=u, mode=mode),
        {"x": X, "i": indices, "u": updates},
    )
    expected = X.copy()
    at = (indices[:, 0], indices[:, 1])
    expected[at] = combined(mode, X[at], updates)
    agrees(y, expected)


@pytest.mark.parametrize(
    ("mode", "expected"), [("add", 8), ("sub", -4), ("mul", 24), ("div", 1 / 6)]
)
def test_an_index_may_come_more_than_once(mode: str, expected: float) -> None:
    x = np.array([[7], [2 if mode != "mul" else 4], [9]], np.float32)
    x[1] = {"add": 3, "sub": 1, "mul": 4, "div": 1}[mode]
    updates = np.array([[2], [3]], np.float32)
    (y,) = compute(
        lambda mb, x, u: mb.scatter(data=x, indices=[1, 1], updates=u, axis=0, mode=mode),
        {"x": x, "u": updates},
    )
    agrees(y, np.array([[7], [expected], [9]], np.float32))


def test_division_of_integers_is_refused() -> None:
    x = np.array([7, 8], np.int32)
    with pytest.raises(UnsupportedError) as error:
        compute(lambda mb, x: mb.scatter(data=x, indices=[1], updates=[2], mode="div"), {"x": x})
    assert "how it rounds" in error.value.items[0].reason
