"""Arithmetic, of integers above all: MIL has int32 alone, and rounds quotients down."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.coreml_emitter.joined import Case, check, numpy_type
from tests.coreml_emitter.running import Array, agree, emitted, kinds, numbers, parsed, run_package

_PAIRS = list(product((-7, -6, -1, 0, 1, 6, 7), (-7, -3, -2, -1, 1, 2, 3)))
_INTEGERS = ["int8", "uint8", "int16", "int32", "uint32", "int64"]
_NARROW = ["int8", "uint8", "int16", "uint16"]
_FUNCTIONS = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}


def _operands(dtype: str) -> tuple[Array, Array]:
    array = np.asarray(_PAIRS)
    if dtype.startswith("u"):
        array = np.abs(array)
    return array[:, 0].astype(dtype), array[:, 1].astype(dtype)


def _case(op: str, dtype: str, pair: tuple[Array, Array], expected: Array) -> Case:
    return Case(op, [dtype, dtype], dtype, pair, expected.astype(numpy_type(dtype)))


@pytest.mark.parametrize("target", [15, 17])
def test_quotient_has_no_fraction(target: int, tmp_path: Path) -> None:
    """Towards zero, whatever the signs are; of the least number, too, whose size isn't an int32."""
    cases = []
    for dtype in _INTEGERS:
        a, b = _operands(dtype)
        cases.append(_case("Div", dtype, (a, b), np.trunc(a.astype(float) / b.astype(float))))
    least = np.asarray([-(2**31), -(2**31), 2**31 - 1, -(2**31) + 1], np.int32)
    by = np.asarray([2, 3, -2, 2], np.int32)
    cases.append(_case("Div", "int32", (least, by), np.trunc(least / by)))
    check(cases, tmp_path, target=target)


def test_remainder(tmp_path: Path) -> None:
    """With the divisor's sign, or the dividend's."""
    cases = []
    for dtype in _INTEGERS:
        a, b = _operands(dtype)
        cases.append(_case("Mod", dtype, (a, b), np.mod(a, b)))
        cases.append(_case("Mod<fmod=1>", dtype, (a, b), np.fmod(a, b)))
    check(cases, tmp_path)


def test_remainder_of_fractions(tmp_path: Path) -> None:
    """Exact where the quotient is large, and small ones stay themselves."""
    cases = []
    for dtype in ("float", "float16"):
        kind = numpy_type(dtype)
        a = np.asarray([-4.3, 7.2, 5.0, 4.3, -7.2, 8.0, 1e4, -1e-5, 3.0], kind)
        b = np.asarray([2.1, -3.4, 8.0, -2.1, 3.4, 5.0, 0.3, 1.0, np.inf], kind)
        cases.append(_case("Mod<fmod=1>", dtype, (a, b), np.fmod(a, b)))
    check(cases, tmp_path)


def test_narrow_integers_wrap_around(tmp_path: Path) -> None:
    """As the type's do, for the largest ones, too."""
    cases = []
    for op, dtype in product(_FUNCTIONS, _NARROW):
        info = np.iinfo(dtype)
        ends = [info.min, info.min + 1, 0, 1, 77, info.max - 1, info.max]
        pairs = np.asarray(list(product(ends, ends)))
        a, b = pairs[:, 0].astype(dtype), pairs[:, 1].astype(dtype)
        cases.append(_case(op, dtype, (a, b), _FUNCTIONS[op](a, b)))
    check(cases, tmp_path)


def test_wide_integers_do_not(tmp_path: Path) -> None:
    """Nothing is added where int32 is what holds the type."""
    model = parsed("g (int64[n] a, int64[n] b) => (int64[n] c) { c = Add(a, b) }")
    assert kinds(emitted(model, tmp_path)) == ["add"]


@pytest.mark.parametrize(
    ("base", "exponent"),
    [("float", "float"), ("float", "int64"), ("int32", "int32"), ("int64", "float")],
)
def test_power_of_two_types(base: str, exponent: str) -> None:
    """In the base's type; an integer's to a fraction loses its own."""
    text = f"g ({base}[n] a, {exponent}[n] b) => ({base}[n] c) {{ c = Pow(a, b) }}"
    a = np.asarray([1, 2, 3, 4, 5], numpy_type(base))
    b = [0.5, 2, 3.5, 2, 0] if exponent == "float" else [0, 2, 3, 4, 5]
    agree(parsed(text), {"a": a, "b": np.asarray(b, numpy_type(exponent))})


def test_square(tmp_path: Path) -> None:
    """Is one, of negative numbers, too."""
    text = "g (float[n] x) => (float[n] y) { two = Constant<value_float=2.0>() y = Pow(x, two) }"
    package = emitted(parsed(text), tmp_path)
    assert kinds(package) == ["square"]
    found = run_package(package, {"x": np.asarray([-3.0, 0.5], np.float32)})
    assert found["y"].tolist() == [9.0, 0.25]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_several(count: int) -> None:
    """Any number of operands, which broadcast; a free axis among them."""
    shapes = ["[n,3]", "[3]", "[1,1]", "[n,1]"][:count]
    inputs = ", ".join(f"float{shape} x{i}" for i, shape in enumerate(shapes))
    names = ", ".join(f"x{i}" for i in range(count))
    ops = ("Max", "Min", "Sum", "Mean")
    outputs = ", ".join(f"float[n,3] {op}" for op in ops)
    nodes = " ".join(f"{op} = {op}({names})" for op in ops)
    feeds = []
    for size in (2, 5):
        sizes = [(size, 3), (3,), (1, 1), (size, 1)][:count]
        feeds.append({f"x{i}": numbers(*shape, seed=i) for i, shape in enumerate(sizes)})
    agree(parsed(f"g ({inputs}) => ({outputs}) {{ {nodes} }}"), feeds)


def test_largest_of_integers(tmp_path: Path) -> None:
    """maximum and minimum in int32."""
    cases = []
    for op, dtype in product(("Max", "Min"), ("uint8", "int16", "uint64")):
        a, b = _operands(dtype)
        cases.append(_case(op, dtype, (a, b), (np.maximum if op == "Max" else np.minimum)(a, b)))
    check(cases, tmp_path)


def test_division_by_nothing() -> None:
    """Infinity, or no number."""
    a, b = np.asarray([1, -1, 0], np.float32), np.zeros(3, np.float32)
    model = parsed("g (float[n] a, float[n] b) => (float[n] c) { c = Div(a, b) }")
    agree(model, {"a": a, "b": b})


def test_sizes_need_no_truncation(tmp_path: Path) -> None:
    """They aren't negative, nor what is computed of them."""
    text = """g (float[n,m] x) => (int64[1] y) {
        s = Shape(x) i = Constant<value_ints=[0]>() two = Constant<value_ints=[2]>()
        n = Gather(s, i) d = Div(n, two) t = Mul(d, two) y = Div(t, n)
    }"""
    package = emitted(parsed(text), tmp_path)
    assert kinds(package).count("floor_div") == 2
    assert "not_equal" not in kinds(package)
    agree(parsed(text), [{"x": numbers(size, 2)} for size in (5, 6)])


def test_float16_by_a_large_number(tmp_path: Path) -> None:
    """Whose inverse, which coremltools multiplies by, would have six bits."""
    text = """g (float16[n] x) => (float16[n] y) {
        c_ = Constant<value_float=50000.0>() c = Cast<to=10>(c_) y = Div(x, c)
    }"""
    x = np.asarray([30000, 60000, -44444], np.float16)
    found = run_package(emitted(parsed(text), tmp_path), {"x": x})["y"]
    np.testing.assert_allclose(found, x.astype(np.float32) / np.float16(50000), rtol=1e-3)


def test_limits_that_int32_does_not_hold(tmp_path: Path) -> None:
    """Of a maximum or minimum, they don't bind."""
    text = """g (int64[n] x) => (int64[n] y) {
        high = Constant<value_int=9223372036854775807>() low = Constant<value_int=-5000000000>()
        a = Min(x, high) y = Max(a, low)
    }"""
    x = np.asarray([-(2**31), -5, 2**31 - 1])
    assert run_package(emitted(parsed(text), tmp_path), {"x": x})["y"].tolist() == x.tolist()
