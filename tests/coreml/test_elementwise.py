"""Operations element by element: values by numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from converter.errors import UnsupportedError
from tests.coreml.running import Array, agrees, compute

RNG = np.random.default_rng(0)
REAL = RNG.uniform(-3, 3, (2, 3, 4)).astype(np.float32)
POSITIVE = RNG.uniform(0.1, 4, (2, 3, 4)).astype(np.float32)
UNIT = RNG.uniform(-0.9, 0.9, (2, 3, 4)).astype(np.float32)
WHOLE = np.array([[-7, -6, -1, 0, 5, 7], [7, 2, -8, 3, 6, -2]], np.int32)
DIVISOR = np.array([[2, -3, 4, 5, -2, 7]], np.int32)

UNARY: dict[str, tuple[Array, Any]] = {
    "abs": (REAL, np.abs),
    "acos": (UNIT, np.arccos),
    "asin": (UNIT, np.arcsin),
    "atan": (REAL, np.arctan),
    "atanh": (UNIT, np.arctanh),
    "ceil": (REAL, np.ceil),
    "cos": (REAL, np.cos),
    "cosh": (REAL, np.cosh),
    "erf": (REAL, np.vectorize(math.erf, otypes=[np.float32])),
    "exp": (REAL, np.exp),
    "exp2": (REAL, np.exp2),
    "floor": (REAL, np.floor),
    "identity": (REAL, np.copy),
    "sign": (REAL, np.sign),
    "sin": (REAL, np.sin),
    "sinh": (REAL, np.sinh),
    "sqrt": (POSITIVE, np.sqrt),
    "square": (REAL, np.square),
    "tan": (UNIT, np.tan),
    "tanh": (REAL, np.tanh),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_unary(dtype: Any) -> None:
    """All in one program, of float32 and of float16."""
    x, positive, unit = (array.astype(dtype) for array in (REAL, POSITIVE, UNIT))
    feeds = {"x": x, "p": positive, "u": unit}
    names = {id(REAL): "x", id(POSITIVE): "p", id(UNIT): "u"}

    def body(mb: Any, **inputs: Any) -> Any:
        return [getattr(mb, op)(x=inputs[names[id(of)]]) for op, (of, _) in UNARY.items()]

    for found, (of, expected) in zip(compute(body, feeds), UNARY.values(), strict=True):
        given = feeds[names[id(of)]].astype(np.float32)
        agrees(found, expected(given).astype(dtype), 2e-6 if dtype is np.float32 else None)


def test_round_takes_halves_to_even() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4999], np.float32)
    (found,) = compute(lambda mb, x: mb.round(x=x), {"x": x})
    np.testing.assert_array_equal(found, [-2, -2, 0, 0, 2, 2, 2])


def test_integers() -> None:
    def body(mb: Any, x: Any, y: Any) -> Any:
        return [
            mb.abs(x=x),
            mb.sign(x=x),
            mb.square(x=x),
            mb.add(x=x, y=y),
            mb.sub(x=x, y=y),
            mb.mul(x=x, y=y),
            mb.maximum(x=x, y=y),
            mb.minimum(x=x, y=y),
            mb.floor_div(x=x, y=y),
            mb.mod(x=x, y=y),
            mb.threshold(x=x, alpha=np.int32(2)),
        ]

    x, y = WHOLE, DIVISOR
    expected = [
        np.abs(x),
        np.sign(x),
        np.square(x),
        x + y,
        x - y,
        x * y,
        np.maximum(x, y),
        np.minimum(x, y),
        x // y,
        x % y,
        np.maximum(x, 2),
    ]
    for found, wanted in zip(compute(body, {"x": x, "y": y}), expected, strict=True):
        agrees(found, wanted.astype(np.int32))


def test_floor_div_at_the_ends_of_int32() -> None:
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    x = np.array([low, low, high, high, low + 1], np.int32)
    y = np.array([3, -3, 2, -2, high], np.int32)
    (found,) = compute(lambda mb, x, y: mb.floor_div(x=x, y=y), {"x": x, "y": y})
    agrees(found, x // y)


def test_real_numbers() -> None:
    y = RNG.uniform(0.5, 2, (3, 1)).astype(np.float32) * np.array([[1], [-1], [1]], np.float32)

    def body(mb: Any, x: Any, y: Any, p: Any) -> Any:
        return [
            mb.real_div(x=x, y=y),
            mb.floor_div(x=x, y=y),
            mb.mod(x=x, y=y),
            mb.pow(x=p, y=y),
            mb.maximum(x=x, y=y),
            mb.minimum(x=x, y=y),
        ]

    x, p = REAL, POSITIVE
    expected = [x / y, np.floor(x / y), np.mod(x, y), p**y, np.maximum(x, y), np.minimum(x, y)]
    for found, wanted in zip(compute(body, {"x": x, "y": y, "p": p}), expected, strict=True):
        agrees(found, wanted)


def test_comparisons_and_logic() -> None:
    x = np.array([[1, 2, 3], [3, 2, 1]], np.float32)
    y = np.array([2, 2, 2], np.float32)

    def body(mb: Any, x: Any, y: Any) -> Any:
        less, equal = mb.less(x=x, y=y), mb.equal(x=x, y=y)
        truths = [
            mb.greater(x=x, y=y),
            mb.greater_equal(x=x, y=y),
            mb.less_equal(x=x, y=y),
            mb.not_equal(x=x, y=y),
            mb.logical_and(x=less, y=equal),
            mb.logical_or(x=less, y=equal),
            mb.logical_xor(x=less, y=equal),
            mb.logical_not(x=less),
        ]
        return [mb.cast(x=truth, dtype="int32") for truth in truths]

    expected = [
        x > y,
        x >= y,
        x <= y,
        x != y,
        (x < y) & (x == y),
        (x < y) | (x == y),
        (x < y) ^ (x == y),
        ~(x < y),
    ]
    for found, wanted in zip(compute(body, {"x": x, "y": y}), expected, strict=True):
        agrees(found, wanted.astype(np.int32))


def test_epsilons() -> None:
    """Added before; those that are left out are MIL's own."""
    x = np.array([0.0, 0.25, 1, 4], np.float32)

    def body(mb: Any, x: Any) -> Any:
        return [
            mb.log(x=x, epsilon=np.float32(0.5)),
            mb.log(x=mb.add(x=x, y=np.float32(1))),
            mb.rsqrt(x=x, epsilon=np.float32(0.25)),
            mb.rsqrt(x=x),
            mb.inverse(x=x, epsilon=np.float32(0.5)),
            mb.inverse(x=x),
        ]

    expected = [
        np.log(x + 0.5),
        np.log(x + 1),
        1 / np.sqrt(x + 0.25),
        1 / np.sqrt(x + 1e-12),
        1 / (x + 0.5),
        1 / (x + 1e-4),
    ]
    for found, wanted in zip(compute(body, {"x": x}), expected, strict=True):
        agrees(found, wanted.astype(np.float32))


def test_an_epsilon_of_another_type() -> None:
    x = np.array([0.25, 1, 4], np.float16)
    (found,) = compute(lambda mb, x: mb.rsqrt(x=x, epsilon=np.float32(0.5)), {"x": x})
    agrees(found, (1 / np.sqrt(x.astype(np.float32) + 0.5)).astype(np.float16))


def test_clip_and_threshold() -> None:
    def body(mb: Any, x: Any) -> Any:
        low, high = np.float32(-0.5), np.float32(0.75)
        return [mb.clip(x=x, alpha=low, beta=high), mb.threshold(x=x, alpha=low)]

    found = compute(body, {"x": REAL})
    agrees(found[0], np.clip(REAL, -0.5, 0.75))
    agrees(found[1], np.maximum(REAL, np.float32(-0.5)))


def test_casts() -> None:
    x = np.array([-2.7, -0.5, 0, 0.5, 2.7], np.float32)

    def body(mb: Any, x: Any) -> Any:
        whole, true = mb.cast(x=x, dtype="int32"), mb.cast(x=x, dtype="bool")
        return [
            whole,
            mb.cast(x=true, dtype="int32"),
            mb.cast(x=x, dtype="fp16"),
            mb.cast(x=mb.cast(x=x, dtype="int8"), dtype="fp32"),
        ]

    found = compute(body, {"x": x})
    agrees(found[0], x.astype(np.int32))
    agrees(found[1], x.astype(bool).astype(np.int32))
    agrees(found[2], x.astype(np.float16))
    agrees(found[3], x.astype(np.int8).astype(np.float32))


def test_real_div_of_integers_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        compute(lambda mb, x, y: mb.real_div(x=x, y=y), {"x": WHOLE, "y": DIVISOR})
    assert "rounds" in caught.value.items[0].reason
