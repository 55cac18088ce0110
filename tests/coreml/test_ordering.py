"""Order and place of elements: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import agrees, compute

RNG = np.random.default_rng(4)
X = RNG.permutation(60).reshape(3, 4, 5).astype(np.float32)


@pytest.mark.parametrize("ascending", [False, True])
def test_topk(ascending: bool) -> None:
    cases = [(-1, 2), (0, 3), (1, 1)]

    def body(mb: Any, x: Any) -> Any:
        found = [mb.topk(x=x, k=k, axis=axis, ascending=ascending) for axis, k in cases]
        return [output for pair in found for output in pair]

    found = compute(body, {"x": X})
    for values, indices, (axis, k) in zip(found[::2], found[1::2], cases, strict=True):
        order = np.argsort(X if ascending else -X, axis).take(np.arange(k), axis)
        agrees(values, np.take_along_axis(X, order, axis))
        agrees(indices, order.astype(np.int32))


def test_topk_without_indices_in_any_order() -> None:
    (values,) = compute(
        lambda mb, x: mb.topk(x=x, k=2, sort=False, return_indices=False), {"x": X}, target=16
    )
    agrees(values, -np.sort(-X, -1)[..., :2])


@pytest.mark.parametrize("kind", ["uint16", "int8"])
def test_topk_of_narrow_integers_with_narrow_indices(kind: str) -> None:
    def body(mb: Any, x: Any) -> Any:
        narrow = mb.cast(x=x, dtype=kind)
        return [
            mb.cast(x=output, dtype="int32")
            for output in mb.topk(x=narrow, k=2, output_indices_dtype="uint16")
        ]

    values, indices = compute(body, {"x": X})
    order = np.argsort(-X, -1)[..., :2]
    agrees(values, np.take_along_axis(X, order, -1).astype(np.int32))
    agrees(indices, order.astype(np.int32))


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize("free", [None, {"x": [0, 1]}])
def test_argsort(ascending: bool, free: Any) -> None:
    (y,) = compute(lambda mb, x: mb.argsort(x=x, axis=1, ascending=ascending), {"x": X}, free=free)
    agrees(y, np.argsort(X if ascending else -X, 1).astype(np.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
def test_non_zero(dtype: Any) -> None:
    x = (X % 3 == 0).astype(np.float32)
    name = {np.float32: "fp32", np.int32: "int32", np.bool_: "bool"}[dtype]
    (y,) = compute(lambda mb, x: mb.non_zero(x=mb.cast(x=x, dtype=name)), {"x": x})
    agrees(y, np.argwhere(x).astype(np.int32))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_cumsum(dtype: Any) -> None:
    x = X.astype(dtype)
    cases = [(False, False), (False, True), (True, False), (True, True)]

    def body(mb: Any, x: Any) -> Any:
        return [mb.cumsum(x=x, axis=1, exclusive=e, reverse=r) for e, r in cases]

    for y, (exclusive, backwards) in zip(compute(body, {"x": x}), cases, strict=True):
        line = x[:, ::-1] if backwards else x
        total = np.cumsum(line, 1, dtype=dtype)
        if exclusive:
            total = total - line
        agrees(y, total[:, ::-1] if backwards else total)
