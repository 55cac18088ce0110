"""Bitwise operators, made of arithmetic."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from emitters.coreml import limits
from tests.coreml_emitter.joined import Case, check
from tests.coreml_emitter.running import Array, agree, numbers, parsed, refusals

_TYPES = ["int8", "uint8", "int16", "uint16", "int32", "int64"]
_FUNCTIONS = {
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}


def _ends(dtype: str) -> Array:
    info = np.iinfo(np.int32 if dtype == "int64" else dtype)
    listed = [info.min, info.min + 1, 0, 1, 2, 77, info.max // 3, info.max - 1, info.max]
    return np.asarray(listed, dtype)


def test_of_two(tmp_path: Path) -> None:
    """Every end of the range with every other, broadcast."""
    cases = []
    for op, dtype in product(_FUNCTIONS, ["int8", "uint16", "int64"]):
        a, b = _ends(dtype)[:, None], _ends(dtype)
        cases.append(Case(op, [dtype, dtype], dtype, [a, b], _FUNCTIONS[op](a, b)))
    check(cases, tmp_path)


@pytest.mark.parametrize("op", ["BitwiseOr"])
def test_five_axes(op: str) -> None:
    """As many as Core ML has; a bit's would be one more."""
    text = f"g (int32[n,2,1,2,3] a, int32[2,4,1,3] b) => (int32[n,2,4,2,3] c) {{ c = {op}(a, b) }}"
    feeds = {
        "a": (numbers(2, 2, 1, 2, 3) * 1e6).astype(np.int32),
        "b": (numbers(2, 4, 1, 3, seed=1) * 1e6).astype(np.int32),
    }
    agree(parsed(text), feeds)


def test_scalars() -> None:
    """Without axes."""
    text = "g (int64 a, int64 b) => (int64 c) { c = BitwiseXor(a, b) }"
    agree(parsed(text), {"a": np.asarray(-77), "b": np.asarray(12345)})


def test_complement(tmp_path: Path) -> None:
    """Of every end of the range."""
    ends = {dtype: _ends(dtype) for dtype in _TYPES}
    cases = [
        Case("BitwiseNot", [dtype], dtype, [x], np.bitwise_not(x)) for dtype, x in ends.items()
    ]
    check(cases, tmp_path)


def test_complement_that_int32_does_not_hold() -> None:
    """Every one of an unsigned integer of 32 bits sets the highest."""
    model = parsed("g (uint32[n] x) => (uint32[n] y) { y = BitwiseNot(x) }")
    assert [refused.reason for refused in refusals(model)] == [limits.UNSIGNED]


def test_shift(tmp_path: Path) -> None:
    """By every number of bits; to the left, what leaves the type is gone."""
    cases = []
    for dtype, direction in product(["uint8", "uint16", "uint32", "uint64"], ["LEFT", "RIGHT"]):
        bits = min(np.dtype(dtype).itemsize * 8, 31)
        narrow = bits < 31
        given = (0, 1, 5, 77, 2**bits - 1) if narrow or direction == "RIGHT" else (1,)
        pairs = np.asarray(list(product(given, range(bits))), np.uint64)
        a, b = pairs[:, 0].astype(dtype), pairs[:, 1].astype(dtype)
        expected = np.left_shift(a, b) if direction == "LEFT" else np.right_shift(a, b)
        op = f'BitShift<direction="{direction}">'
        cases.append(Case(op, [dtype, dtype], dtype, [a, b], expected))
    check(cases, tmp_path)
