"""Tensors put together, cut, repeated and padded: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import agrees, compute

RNG = np.random.default_rng(2)
X = RNG.uniform(-3, 3, (2, 3, 4)).astype(np.float32)
Y = RNG.uniform(-3, 3, (2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("free", [None, {"x": [0, 1, 2], "y": [0, 1, 2]}])
def test_concat_one_after_the_other_or_in_turn(free: Any) -> None:
    axes = (0, 1, -1)

    def body(mb: Any, x: Any, y: Any) -> Any:
        after = [mb.concat(values=[x, y], axis=axis) for axis in axes]
        return after + [mb.concat(values=[x, y], axis=axis, interleave=True) for axis in axes]

    found = compute(body, {"x": X, "y": Y}, free=free)
    for after, in_turn, axis in zip(found[:3], found[3:], axes, strict=True):
        agrees(after, np.concatenate([X, Y], axis))
        agrees(in_turn, np.stack([X, Y], axis % 3 + 1).reshape(after.shape))


def test_concat_of_numbers() -> None:
    def body(mb: Any, x: Any) -> Any:
        first = mb.squeeze(x=mb.slice_by_index(x=x, begin=[0], end=[1]), axes=[0])
        last = mb.gather(x=x, indices=2, axis=0)
        return mb.concat(values=[last, first], axis=0)

    (z,) = compute(body, {"x": np.array([5, 6, 7], np.int32)})
    agrees(z, np.array([7, 5], np.int32))


def test_stack() -> None:
    axes = (0, 2, -1)

    def body(mb: Any, x: Any, y: Any) -> Any:
        return [mb.stack(values=[x, y, x], axis=axis) for axis in axes]

    for z, axis in zip(compute(body, {"x": X, "y": Y}), axes, strict=True):
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


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_pad_of_the_last_axes(dtype: Any) -> None:
    x = X.astype(dtype)

    def body(mb: Any, x: Any) -> Any:
        constant = mb.pad(x=x, pad=[1, 2, 0, 3], constant_val=dtype(2.5))
        modes = ("reflect", "replicate")
        return constant, *(mb.pad(x=x, pad=[1, 2, 0, 3], mode=mode) for mode in modes)

    constant, reflected, replicated = compute(body, {"x": x})
    amounts = [(0, 0), (1, 2), (0, 3)]
    agrees(constant, np.pad(x, amounts, constant_values=2.5))
    agrees(reflected, np.pad(x, amounts, mode="reflect"))
    agrees(replicated, np.pad(x, amounts, mode="edge"))


def test_amounts_may_be_computed() -> None:
    amounts = np.array([1, 0, 0, 2, 3, 1], np.int32)
    (y,) = compute(lambda mb, x, n: mb.pad(x=x, pad=n), {"x": X, "n": amounts})
    agrees(y, np.pad(X, amounts.reshape(3, 2)))
