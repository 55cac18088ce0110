"""Operations that keep the elements and change the shape: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(1)
X = RNG.uniform(-3, 3, (2, 3, 4)).astype(np.float32)
THIN = RNG.uniform(-3, 3, (1, 3, 1, 2)).astype(np.float32)


def test_transpose_counts_axes_from_the_end_too() -> None:
    (y,) = compute(lambda mb, x: mb.transpose(x=x, perm=[-1, 0, 1]), {"x": X})
    agrees(y, X.transpose(2, 0, 1))


def test_expand_dims() -> None:
    cases = [[0], [-1], [0, 2], [3, 0]]
    found = compute(lambda mb, x: [mb.expand_dims(x=x, axes=axes) for axes in cases], {"x": X})
    for y, axes in zip(found, cases, strict=True):
        agrees(y, np.expand_dims(X, tuple(axes)))


def test_squeeze_leaves_axes_of_another_size() -> None:
    cases: dict[tuple[int, ...], tuple[int, ...]] = {
        (): (3, 2),
        (0,): (3, 1, 2),
        (-2, 0): (3, 2),
        (0, 1): (3, 1, 2),
    }

    def body(mb: Any, x: Any) -> Any:
        return [mb.squeeze(x=x, **({"axes": list(axes)} if axes else {})) for axes in cases]

    for y, shape in zip(compute(body, {"x": THIN}), cases.values(), strict=True):
        agrees(y, THIN.reshape(shape))


@pytest.mark.parametrize("target", [15, 17])
def test_reshape(target: int) -> None:
    cases = [[6, 4], [-1], [4, -1, 2], [0, -1, 0], [0, 4, 3]]

    def body(mb: Any, x: Any) -> Any:
        return [mb.reshape(x=x, shape=shape) for shape in cases]

    for y, shape in zip(compute(body, {"x": X}, target=target), cases, strict=True):
        agrees(y, X.reshape([X.shape[at] if size == 0 else size for at, size in enumerate(shape)]))


@pytest.mark.parametrize("free", [None, {"x": [2]}])
def test_a_zero_stands_for_the_size_as_far_from_the_last_axis(free: Any) -> None:
    cases = {(1, 0, -1, 0): (1, 2, 3, 4), (-1, 0): (6, 4), (0, 0, 0, 0, 0): (1, 1, 2, 3, 4)}

    def body(mb: Any, x: Any) -> Any:
        return [mb.reshape(x=x, shape=list(shape)) for shape in cases]

    for y, shape in zip(compute(body, {"x": X}, free=free), cases.values(), strict=True):
        agrees(y, X.reshape(shape))


def test_a_computed_shape_may_have_zeros() -> None:
    def body(mb: Any, x: Any) -> Any:
        sizes = mb.shape(x=x)
        rows = mb.slice_by_index(x=sizes, begin=[0], end=[1])
        return mb.reshape(x=x, shape=mb.concat(values=[rows, [3, 1, 0]], axis=0))

    (y,) = compute(body, {"x": X}, free={"x": [0]})
    agrees(y, X.reshape(2, 3, 1, 4))


def test_reshape_by_the_shape_of_another() -> None:
    def body(mb: Any, x: Any) -> Any:
        return mb.reshape(x=mb.transpose(x=x, perm=[2, 0, 1]), shape=mb.shape(x=x))

    (y,) = compute(body, {"x": X}, free={"x": [0, 1]})
    agrees(y, X.transpose(2, 0, 1).reshape(X.shape))


def test_reshape_like() -> None:
    like: dict[str, Array] = {"x": X, "a": np.zeros((2, 9), np.float32)}
    like["b"] = np.zeros((7, 4, 3), np.float32)

    def body(mb: Any, x: Any, a: Any, b: Any) -> Any:
        begins, ends, masks = (0, 1), (1, 0), (False, True)
        y = mb.reshape_like(x=x, ref_tensors=(a, b), begins=begins, ends=ends, end_masks=masks)
        return y, mb.relu(x=a), mb.relu(x=b)

    y, _, _ = compute(body, like)
    agrees(y, X.reshape(2, 4, 3))


def test_flatten2d() -> None:
    axes = [1, 2, -1]
    found = compute(lambda mb, x: [mb.flatten2d(x=x, axis=axis) for axis in axes], {"x": X})
    for y, axis in zip(found, axes, strict=True):
        agrees(y, X.reshape(int(np.prod(X.shape[:axis])), -1))


def test_shape() -> None:
    (y,) = compute(lambda mb, x: mb.shape(x=x), {"x": X}, free={"x": [0, 2]})
    agrees(y, np.array([2, 3, 4], np.int32))
