"""Integers of 64 bits: Div, Abs, Sign, ArgMax, which LiteRT has in 32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tflite_emitter.running import Array, agree, kinds, numbers, parsed

LARGE = 2**63 - 1

OPERANDS: dict[str, tuple[list[int], list[int]]] = {
    "small": ([7, -7, 7, -7, 0, 1], [2, 2, -2, -2, 5, 1]),
    "large": ([LARGE, -LARGE, LARGE, -LARGE - 1, LARGE, LARGE], [1, 1, 3, 2, 10**9 + 7, LARGE]),
    "close": (
        [2**53 - 1, 2**53, 10**18, 10**18 - 1, -(10**18), 6],
        [2**26 + 1, 2**53, 10**9, 10**9, 10**9 - 1, -(2**40)],
    ),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_division_towards_zero(name: str, tmp_path: Path) -> None:
    model = parsed("g (int64[n] a, int64[n] b) => (int64[n] y) { y = Div (a, b) }")
    a, b = (np.asarray(row, np.int64) for row in OPERANDS[name])
    agree(model, {"a": a, "b": b}, tmp_path)


def test_division_of_random_numbers(tmp_path: Path) -> None:
    model = parsed("g (int64[n] a, int64[n] b) => (int64[n] y) { y = Div (a, b) }")
    random = np.random.default_rng(0)

    def some() -> Array:
        signed = random.integers(-LARGE, LARGE, 5000)
        return signed >> random.integers(0, 63, 5000)

    a, b = some(), some()
    agree(model, {"a": a, "b": np.where(b == 0, 1, b)}, tmp_path)


def test_sizes_are_divided_in_32_bits(tmp_path: Path) -> None:
    model = parsed("""
g (float[n,c,h,w] x) => (int64[1] y)
  { s = Shape (x) i = Constant <value_ints=[2]> () h = Gather (s, i)
    one = Constant <value_ints=[1]> () m = Sub (h, one) two = Constant <value_ints=[2]> ()
    d = Div (m, two) y = Add (d, one) }""")
    assert kinds(model).count("DIV") == 1
    agree(model, {"x": numbers(1, 2, 9, 3)}, tmp_path)


@pytest.mark.parametrize("op", ["Abs", "Sign", "Neg"])
def test_signs(op: str, tmp_path: Path) -> None:
    model = parsed(f"g (int64[n] x) => (int64[n] y) {{ y = {op} (x) }}")
    agree(model, {"x": np.asarray([-LARGE, -2, 0, 1, LARGE], np.int64)}, tmp_path)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_where_the_largest_is(op: str, dtype: str, last: int, tmp_path: Path) -> None:
    model = parsed(f"""
g ({dtype}[n,5] x) => (int64[n,1] y)
  {{ y = {op} <axis=1, select_last_index={last}> (x) }}""")
    rows = [[1, 9, 9, 2, 1], [7, 0, 3, 7, 0]]
    x = np.asarray(rows, np.int64) + (2**40 if dtype == "int64" else 0)
    agree(model, {"x": x.astype(dtype)}, tmp_path)
