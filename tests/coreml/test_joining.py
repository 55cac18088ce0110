"""Tensors put together, cut, repeated and padded: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import agrees, compute

RNG = np.random.default_rng(2)
X = RNG.uniform(-3, 3, (2, 3, 4)).astype(np.float32)
Y = RNG.uniform(-3, 3, (2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int) -> None:
    (z,) = compute(lambda mb, x, y: mb.concat(values=[x, y], axis=axis), {"x": X, "y": Y})
    agrees(z, np.concatenate([X, Y], axis))


@pytest.mark.parametrize("free", [None, {"x": [0, 1, 2], "y": [0, 1, 2]}])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_an_element_of_each_in_turn(axis: int, free: Any) -> None:
    (z,) = compute(
        lambda mb, x, y: mb.concat(values=[x, y], axis=axis, interleave=True),
        {"x": X, "y": Y},
        free=free,
    )
    at = axis % 3
    shape = [size * 2 if here == at else size for here, size in enumerate(X.shape)]
    agrees(z, np.stack([X, Y], at + 1).reshape(shape))


def test_concat_of_numbers() -> None:
    def body(mb: Any, x: Any) -> Any:
        first = mb.squeeze(x=mb.slice_by_index(x=x, begin=[0], end=[1]), axes=[0])
        last = mb.gather(x=x, indices=2, axis=0)
        return mb.concat(values=[last, first], axis=0)

    (z,) = compute(body, {"x": np.array([5, 6, 7], np.int32)})
    agrees(z, np.array([7, 5], np.int32))


@pytest.mark.parametrize("axis", [0, 2, -1])
def test_stack(axis: int) -> None:
    (z,) = compute(lambda mb, x, y: mb.stack(values=[x, y, x], axis=axis), {"x": X, "y": Y})
    agrees(z, np.stack([X, Y, X], axis))


def test_split_into_equal_parts() -> None:
    parts = compute(lambda mb, x: mb.split(x=x, num_splits=2, axis=-1), {"x": X})
    for found, expected in zip(parts, np.split(X, 2, -1), strict=True):
        agrees(found, expected)


def test_split_by_sizes() -> None:
    parts = compute(lambda mb, x: mb.split(x=x, split_sizes=[1, 2], axis=1), {"x": X})
    for found, expected in zip(parts, np.split(X, [1], 1), strict=True):
        agrees(found, expected)


def test_tile() -> None:
    def body(mb: Any, x: Any, n: Any) -> Any:
        return mb.tile(x=x, reps=[1, 2, 3]), mb.tile(x=x, reps=n)

    times = np.array([2, 1, 2], np.int32)
    y, z = compute(body, {"x": X, "n": times})
    agrees(y, np.tile(X, (1, 2, 3)))
    agrees(z, np.tile(X, times))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_pad_of_the_last_axes(mode: str, dtype: Any) -> None:
    x = X.astype(dtype)
    given = {"constant_val": dtype(2.5)} if mode == "constant" else {}
    (y,) = compute(lambda mb, x: mb.pad(x=x, pad=[1, 2, 0, 3], mode=mode, **given), {"x": x})
    amounts = [(0, 0), (1, 2), (0, 3)]
    if mode == "constant":
        agrees(y, np.pad(x, amounts, constant_values=2.5))
    else:
        agrees(y, np.pad(x, amounts, mode="edge" if mode == "replicate" else "reflect"))


def test_amounts_may_be_computed() -> None:
    amounts = np.array([1, 0, 0, 2, 3, 1], np.int32)
    (y,) = compute(lambda mb, x, n: mb.pad(x=x, pad=n), {"x": X, "n": amounts})
    agrees(y, np.pad(X, amounts.reshape(3, 2)))
