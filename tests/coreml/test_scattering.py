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


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter(axis: int, dtype: Any) -> None:
    indices = np.array([2, 0], np.int32)
    shape = [2 if at == axis else size for at, size in enumerate(X.shape)]
    updates, x = RNG.uniform(1, 3, shape).astype(dtype), X.astype(dtype)

    def body(mb: Any, x: Any, u: Any) -> Any:
        given = {"data": x, "indices": indices, "updates": u, "axis": axis}
        return [mb.scatter(**given, mode=mode) for mode in MODES]

    for y, mode in zip(compute(body, {"x": x, "u": updates}), MODES, strict=True):
        expected = np.moveaxis(x.copy(), axis, 0)
        expected[indices] = combined(mode, expected[indices], np.moveaxis(updates, axis, 0))
        agrees(y, np.moveaxis(expected, 0, axis))


def test_scatter_along_axis() -> None:
    indices = np.argsort(RNG.uniform(size=(4, 3, 5)), 1)[:, :2].astype(np.int32)
    updates = RNG.uniform(1, 3, (4, 2, 5)).astype(np.float32)

    def body(mb: Any, x: Any, i: Any, u: Any) -> Any:
        given = {"data": x, "indices": i, "updates": u, "axis": 1}
        return [mb.scatter_along_axis(**given, mode=mode) for mode in MODES]

    found = compute(body, {"x": X, "i": indices, "u": updates})
    wide = indices.astype(np.int64)
    old = np.take_along_axis(X, wide, 1)
    for y, mode in zip(found, MODES, strict=True):
        expected = X.copy()
        np.put_along_axis(expected, wide, combined(mode, old, updates), 1)
        agrees(y, expected)


def test_scatter_nd() -> None:
    indices = np.array([[3, 0], [0, 2]], np.int32)
    updates = RNG.uniform(1, 3, (2, 5)).astype(np.float32)
    at = (indices[:, 0], indices[:, 1])

    def body(mb: Any, x: Any, i: Any, u: Any) -> Any:
        return [mb.scatter_nd(data=x, indices=i, updates=u, mode=mode) for mode in MODES]

    found = compute(body, {"x": X, "i": indices, "u": updates})
    for y, mode in zip(found, MODES, strict=True):
        expected = X.copy()
        expected[at] = combined(mode, X[at], updates)
        agrees(y, expected)


def test_an_index_may_come_more_than_once() -> None:
    x, updates = np.array([[7], [6], [9]], np.float32), np.array([[2], [4]], np.float32)
    expected = {"add": 12, "sub": 0, "mul": 48, "div": 0.75, "max": 6, "min": 2}

    def body(mb: Any, x: Any, u: Any) -> Any:
        given = {"data": x, "indices": [1, 1], "updates": u, "axis": 0}
        return [mb.scatter(**given, mode=mode) for mode in expected]

    found = compute(body, {"x": x, "u": updates})
    for y, number in zip(found, expected.values(), strict=True):
        agrees(y, np.array([[7], [number], [9]], np.float32))


def test_division_of_integers_is_refused() -> None:
    x = np.array([7, 8], np.int32)
    with pytest.raises(UnsupportedError) as error:
        compute(lambda mb, x: mb.scatter(data=x, indices=[1], updates=[2], mode="div"), {"x": x})
    assert "how it rounds" in error.value.items[0].reason
