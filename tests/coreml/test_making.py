"""Tensors made of numbers and shapes, and of an order of elements: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Case, cast, check, op

RNG = np.random.default_rng(3)
X = RNG.permutation(60).reshape(3, 4, 5).astype(np.float32)
BANDED = RNG.integers(1, 9, (2, 4, 5))
SIZES = {"n": np.array([2, 3], np.int32)}


def test_fill() -> None:
    cases: list[Case] = []
    for value in (2.5, 7, True):
        dtype = np.float32 if isinstance(value, float) else np.int32
        some: Any = cast if value is True else lambda body: body
        cases.append(
            (some(lambda mb, n, value=value: mb.fill(shape=n, value=value)),
             np.full((2, 3), value, dtype))
        )  # fmt: skip
        cases.append(
            (some(lambda mb, n, value=value: mb.fill(shape=[3, 1], value=value)),
             np.full((3, 1), value, dtype))
        )  # fmt: skip
    check(cases, SIZES)
    x = np.zeros((2, 5), np.float32)
    like = lambda mb, x: mb.fill_like(ref_tensor=x, value=3)  # noqa: E731
    check([(like, np.full((2, 5), 3))], {"x": x}, free={"x": [0]})


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float16])
def test_range_1d(dtype: Any) -> None:
    def body(mb: Any, end: Any) -> Any:
        last = mb.squeeze(x=end, axes=[0])
        return mb.range_1d(start=dtype(1), end=last, step=dtype(2))

    check([(body, np.array([1, 3, 5, 7], dtype))], {"end": np.array([8], dtype)})


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_of_what_is_no_place_is_nowhere(axis: int) -> None:
    indices = np.array([[0, 3, -1], [2, 4, 1]], np.int32)
    hot = np.moveaxis(indices[..., None] == np.arange(4), -1, axis)

    def of(**values: Any) -> Any:
        return lambda mb, i, n: mb.one_hot(indices=i, one_hot_vector_size=4, axis=axis, **values)

    def counted(mb: Any, i: Any, n: Any) -> Any:
        return mb.one_hot(indices=i, one_hot_vector_size=mb.squeeze(x=n, axes=[0]), axis=axis)

    cases = [
        (of(on_value=2.5, off_value=-1.0), np.where(hot, np.float32(2.5), np.float32(-1))),
        (cast(of(on_value=True, off_value=False)), hot),
        (counted, hot),
    ]
    check(cases, {"i": indices, "n": np.array([4], np.int32)})


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_band_part(dtype: Any) -> None:
    x = BANDED.astype(dtype)
    row, column = np.arange(4)[:, None], np.arange(5)
    cases: list[Case] = []
    for lower, upper in [(-1, -1), (0, -1), (1, 0), (-1, 2)]:
        within = ((lower < 0) | (row - column <= lower)) & ((upper < 0) | (column - row <= upper))
        cases.append((op.band_part(lower=lower, upper=upper), np.where(within, x, 0).astype(dtype)))
    check(cases, {"x": x})


def test_what_is_outside_of_a_band_is_zero_even_where_it_was_infinite() -> None:
    x = np.full((3, 3), np.inf, np.float32)
    check([(op.band_part(lower=0, upper=0), np.where(np.eye(3) > 0, np.inf, 0))], {"x": x})


# -- order -------------------------------------------------------------------------------


def test_topk() -> None:
    cases: list[Case] = []
    for axis, k, ascending in [(-1, 2, False), (0, 3, True), (1, 1, False), (1, 2, True)]:
        order = np.argsort(X if ascending else -X, axis).take(np.arange(k), axis)
        body = op.topk(k=k, axis=axis, ascending=ascending)
        cases.append((body, [np.take_along_axis(X, order, axis), order]))
    check(cases, {"x": X})
    some = op.topk(k=2, sort=False, return_indices=False)
    check([(some, -np.sort(-X, -1)[..., :2])], {"x": X}, target=16)
    for kind in ("uint16", "int8"):  # narrow integers, with narrow indices
        narrow = cast(
            lambda mb, x, kind=kind: mb.topk(
                x=mb.cast(x=x, dtype=kind), k=2, output_indices_dtype="uint16"
            )
        )
        order = np.argsort(-X, -1)[..., :2]
        values = np.take_along_axis(X, order, -1).astype(np.int32)
        check([(narrow, [values, order])], {"x": X})


@pytest.mark.parametrize("free", [None, {"x": [0, 1]}])
def test_argsort(free: Any) -> None:
    kinds = ((X, True), (-X, False))
    cases = [(op.argsort(axis=1, ascending=up), np.argsort(x, 1)) for x, up in kinds]
    check(cases, {"x": X}, free=free)


@pytest.mark.parametrize("kind", ["fp32", "int32", "bool"])
def test_non_zero(kind: str) -> None:
    x = (X % 3 == 0).astype(np.float32)
    check([(lambda mb, x: mb.non_zero(x=mb.cast(x=x, dtype=kind)), np.argwhere(x))], {"x": x})


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_cumsum(dtype: Any) -> None:
    x, cases = X.astype(dtype), []
    for exclusive, backwards in [(False, False), (False, True), (True, False), (True, True)]:
        line = x[:, ::-1] if backwards else x
        total = np.cumsum(line, 1, dtype=dtype) - (line if exclusive else 0)
        body = op.cumsum(axis=1, exclusive=exclusive, reverse=backwards)
        cases.append((body, (total[:, ::-1] if backwards else total).astype(dtype)))
    check(cases, {"x": x})
