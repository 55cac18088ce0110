"""Reductions: values by numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, agrees, compute

X = np.random.default_rng(3).uniform(0.2, 2, (2, 3, 4)).astype(np.float32)

OVER: dict[str, Callable[..., Any]] = {
    "reduce_l1_norm": lambda x, **how: np.abs(x).sum(**how),
    "reduce_l2_norm": lambda x, **how: np.sqrt(np.square(x).sum(**how)),
    "reduce_log_sum": lambda x, **how: np.log(x.sum(**how)),
    "reduce_log_sum_exp": lambda x, **how: np.log(np.exp(x).sum(**how)),
    "reduce_max": np.max,
    "reduce_mean": np.mean,
    "reduce_min": np.min,
    "reduce_prod": np.prod,
    "reduce_sum": np.sum,
    "reduce_sum_square": lambda x, **how: np.square(x).sum(**how),
}


def _both(x: Array, axes: list[int] | None, keep: bool) -> None:
    def body(mb: Any, x: Any) -> list[Any]:
        how = {"keep_dims": keep} | ({} if axes is None else {"axes": axes})
        return [getattr(mb, op)(x=x, **how) for op in OVER]

    over = None if axes is None else tuple(axes)
    for found, expected in zip(compute(body, {"x": x}), OVER.values(), strict=True):
        wanted = np.asarray(expected(x.astype(np.float64), axis=over, keepdims=keep))
        agrees(found.reshape(wanted.shape), wanted.astype(x.dtype))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("axes", [[1], [0, -1]])
def test_axes(axes: list[int], keep: bool) -> None:
    _both(X, axes, keep)


def test_all_axes() -> None:
    _both(X, None, True)


def test_float16() -> None:
    _both(X.astype(np.float16), [1, 2], False)


def test_integers() -> None:
    x = np.array([[1, -2, 3], [4, 5, -6]], np.int32)

    def body(mb: Any, x: Any) -> list[Any]:
        return [mb.reduce_sum(x=x, axes=[1]), mb.reduce_max(x=x, axes=[0], keep_dims=True)]

    found = compute(body, {"x": x})
    agrees(found[0], x.sum(axis=1).astype(np.int32))
    agrees(found[1], x.max(axis=0, keepdims=True))


def test_where_the_largest_is() -> None:
    def body(mb: Any, x: Any) -> list[Any]:
        return [
            mb.reduce_argmax(x=x),
            mb.reduce_argmin(x=x, axis=1, keep_dims=True),
            mb.cast(x=mb.reduce_argmax(x=x, axis=0, output_dtype="uint16"), dtype="int32"),
        ]

    found = compute(body, {"x": X})
    agrees(found[0], X.argmax(axis=-1).astype(np.int32))
    agrees(found[1], X.argmin(axis=1, keepdims=True).astype(np.int32))
    agrees(found[2], X.argmax(axis=0).astype(np.int32))
