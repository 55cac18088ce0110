"""quantize and dequantize at run time: values by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.coreml.running import Array, agrees, compute

X = np.random.default_rng(12).uniform(-3, 3, (2, 3, 4)).astype(np.float32)
X[0, 0] = [0.5 / 16, 1.5 / 16, -0.5 / 16, 100]


def rounded(x: Array, scale: Any, zero: Any, dtype: Any) -> Array:
    limits = np.iinfo(dtype)
    y: Array = np.clip(np.round(x / scale) + zero, limits.min, limits.max)
    return y


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("zero", [None, 3])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_per_tensor(dtype: Any, zero: int | None, kind: Any) -> None:
    given: dict[str, Any] = {"scale": kind(1 / 16)}
    if zero is not None:
        given["zero_point"] = dtype(zero)

    def body(mb: Any, x: Any) -> Any:
        q = mb.quantize(input=x, output_dtype=np.dtype(dtype).name, **given)
        return mb.cast(x=q, dtype="int32"), mb.dequantize(input=q, **given)

    x = X.astype(kind)
    q, y = compute(body, {"x": x})
    expected = rounded(x, kind(1 / 16), zero or 0, dtype)
    agrees(q, expected.astype(np.int32))
    agrees(y, ((expected - (zero or 0)) / 16).astype(kind))


def test_along_an_axis() -> None:
    scale = np.array([1 / 8, 1 / 16, 1 / 64], np.float32)
    zero = np.array([-3, 0, 9], np.int8)
    given = {"scale": scale, "zero_point": zero, "axis": -2}

    def body(mb: Any, x: Any) -> Any:
        q = mb.quantize(input=x, output_dtype="int8", **given)
        return mb.cast(x=q, dtype="int32"), mb.dequantize(input=q, **given)

    q, y = compute(body, {"x": X})
    column, shift = scale[:, None], zero.astype(np.float32)[:, None]
    expected = rounded(X, column, shift, np.int8)
    agrees(q, expected.astype(np.int32))
    agrees(y, (expected - shift) * column)


def test_along_an_axis_without_a_zero_point() -> None:
    scale = np.array([1 / 8, 1 / 16, 1 / 64], np.float32)

    def body(mb: Any, x: Any) -> Any:
        q = mb.quantize(input=x, output_dtype="int8", scale=scale, axis=1)
        return mb.cast(x=q, dtype="int32"), mb.dequantize(input=q, scale=scale, axis=1)

    q, y = compute(body, {"x": X})
    expected = rounded(X, scale[:, None], 0, np.int8)
    agrees(q, expected.astype(np.int32))
    agrees(y, expected * scale[:, None])


def test_along_an_axis_after_a_single_scale() -> None:
    scale = np.array([1 / 8, 1 / 16, 1 / 64], np.float32)

    def body(mb: Any, x: Any) -> Any:
        q = mb.quantize(input=x, output_dtype="int8", scale=np.float32(1 / 16))
        return mb.dequantize(input=q, scale=scale, axis=1)

    (y,) = compute(body, {"x": X})
    agrees(y, (rounded(X, 1 / 16, 0, np.int8) * scale[:, None]).astype(np.float32))
