"""Integers: arithmetic that wraps around, division, bits, casts between all types."""

from itertools import product

import numpy as np
import pytest

from tests.operators.cases import Array, Case, Differs, Emits, Fails, Only, Refused, graph
from tests.operators.running import TARGETS, check

LARGE = 2**63 - 1
WIDE = Fails("of more than 32 bits")
PAIRS = np.asarray(list(product((-7, -6, -1, 0, 1, 6, 7), (-7, -3, -2, -1, 1, 2, 3))))
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
BITWISE = ("BitwiseAnd (a, b)", "BitwiseOr (a, b)", "BitwiseXor (a, b)")
CODES = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
         "bool": 9, "float16": 10, "uint32": 12, "uint64": 13}  # fmt: skip


def random(count: int = 5000) -> dict[str, Array]:
    """Of every size, and divisors that aren't nothing."""
    seeded = np.random.default_rng(0)
    a, b = (seeded.integers(-LARGE, LARGE, count) >> seeded.integers(0, 63, count) for _ in "ab")
    return {"a": a, "b": np.where(b == 0, 1, b)}


def ends(dtype: str) -> Array:
    """The least, the largest and what is between."""
    info = np.iinfo("int32" if dtype in ("int64", "uint32", "uint64") else dtype)
    low = 0 if dtype.startswith("u") else info.min
    return np.asarray([low, low + 1, 0, 1, 2, 77, info.max // 3, info.max - 1, info.max], dtype)


def pairs(dtype: str) -> dict[str, Array]:
    """Each end with each other."""
    a, b = np.meshgrid(ends(dtype), ends(dtype))
    return {"a": a.ravel(), "b": b.ravel()}


def large(dtype: str) -> Array:
    """The least, the largest and what is between, of 64 bits."""
    info = np.iinfo(dtype)
    made = np.random.default_rng(0).integers(info.min, info.max, 18, dtype, endpoint=True)
    made[:2] = info.min, info.max
    return made


def shifts(dtype: str, direction: str) -> dict[str, Array]:
    """Numbers, and by how many bits each is shifted: by all that there are."""
    bits = min(np.dtype(dtype).itemsize * 8, 31)
    given = (0, 1, 5, 77, 2**bits - 1) if bits < 31 or direction == "RIGHT" else (1,)
    a, b = np.asarray(list(product(given, range(bits))), np.uint64).T
    return {"a": a, "b": b}


def castable(source: str, target: str) -> list[float]:
    """Numbers whose cast is defined."""
    if source == "bool":
        return [1, 0]
    if source in ("float", "float16"):
        below = [] if target[0] == "u" else [-0.5, -0.99, -1.5, -100.7]
        return [0.0, -0.0, 0.5, 0.99, 1.5, 2.5, 100.7, *below]
    info = np.iinfo("int32" if np.dtype(source).itemsize > 2 else source)
    low = 0 if source[0] == "u" or target in ("uint32", "uint64") else info.min
    listed = [info.min, info.min + 1, -129, -1, 0, 1, 127, 128, 255, 256, 65535, info.max]
    if target in ("float", "float16", "bool"):
        listed = [0, 1, 100, 127]
    return [number for number in listed if low <= number <= info.max]


# fmt: off
CASES: list[Case] = [
    # division
    *(
        Case(f"divided: {dtype}",
            f"""g ({dtype}[n] a, {dtype}[n] b) => (x, y, z) {{
                x = Div (a, b)
                y = Mod (a, b)
                z = Mod <fmod = 1> (a, b)
            }}""",
            feeds=dict(zip("ab", (np.abs(PAIRS) if dtype[0] == "u" else PAIRS).T, strict=True)),
            tflite=Refused("doesn't take uint32") if dtype == "uint32" else None, ios=(15, 17))
        for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64")
    ),
    Case("divided: the least int32", "g (int32[n] a, int32[n] b) => (y) { y = Div (a, b) }",
        feeds={"a": [-(2**31), -(2**31), 2**31 - 1, -(2**31) + 1], "b": [2, 3, -2, 2]}),
    Case("divided: large int64", "g (int64[n] a, int64[n] b) => (y) { y = Div (a, b) }",
        feeds={"a": [LARGE, -LARGE, LARGE, -LARGE - 1, LARGE, LARGE], "b": [1, 1, 3, 2, 10**9 + 7, LARGE]},
        coreml=WIDE),
    Case("divided: close int64", "g (int64[n] a, int64[n] b) => (y) { y = Div (a, b) }",
        feeds={
            "a": [2**53 - 1, 2**53, 10**18, 10**18 - 1, -(10**18), 6],
            "b": [2**26 + 1, 2**53, 10**9, 10**9, 10**9 - 1, -(2**40)],
        },
        coreml=WIDE),
    Case("divided: random int64", "g (int64[n] a, int64[n] b) => (y) { y = Div (a, b) }",
        feeds=random(), coreml=WIDE),
    Case("sizes are divided in 32 bits",
        """g (float[n, c, h, w] x) => (y)
            <int64[1] one = {1}, int64[1] two = {2}> {
            s = Shape (x)
            h = Gather (s, two)
            m = Sub (h, one)
            d = Div (m, two)
            y = Add (d, one)
        }""",
        sizes={"n": 1, "c": 2, "h": 9, "w": 3}, tflite=Emits(DIV=1)),
    Case("sizes need no truncation",
        """g (float[n, m] x) => (y) <int64[1] zero = {0}, int64[1] two = {2}> {
            s = Shape (x)
            m = Gather (s, zero)
            d = Div (m, two)
            t = Mul (d, two)
            y = Div (t, m)
        }""",
        sizes=[{"n": 5, "m": 2}, {"n": 6, "m": 2}], coreml=Emits(floor_div=2, not_equal=0)),
    # one number
    *(
        Case(f"{op} of int64", f"g (int64[n] x) => (y) {{ y = {op} (x) }}",
            feeds={"x": [-LARGE, -2, 0, 1, LARGE]}, coreml=WIDE)
        for op in ("Abs", "Sign", "Neg")
    ),
    *(
        Case(f"{op} of int8", f"g (int8[n] x) => (y) {{ y = {op} (x) }}", feeds={"x": [-128, -127, 5]})
        for op in ("Abs", "Neg")
    ),
    Case("Abs of int32", "g (int32[n] x) => (y) { y = Abs (x) }", feeds={"x": [-(2**31) + 1, 3]}),
    Case("Neg of int16", "g (int16[n] x) => (y) { y = Neg (x) }", feeds={"x": [-(2**15), 7]}),
    Case("Sign of uint8", "g (uint8[n] x) => (y) { y = Sign (x) }", feeds={"x": [0, 255]}),
    Case("sizes that differ",
        """g (int8[n] a, int16[m] b, int64[p] c) => (y1, y2, y3) {
            y1 = Abs (a)
            y2 = Neg (b)
            y3 = Sign (c)
        }""",
        sizes={"n": 3, "m": 2, "p": 7}),
    # two numbers
    *(
        Case(f"{op} of {dtype}", f"g ({dtype}[n] a, {dtype}[n] b) => (y) {{ y = {op} (a, b) }}",
            feeds=pairs(dtype))
        for op in ("Add", "Sub", "Mul")
        for dtype in ("int8", "uint8", "int16", "uint16")
    ),
    Case("an Add of int64", "g (int64[n] a, int64[n] b) => (y) { y = Add (a, b) }",
        sizes={"n": 4}, coreml=Only("add")),
    *(
        Case(f"{op} of {dtype}", f"g ({dtype}[n] a, {dtype}[n] b) => (y) {{ y = {op} (a, b) }}",
            feeds=pairs(dtype), tflite=Refused("doesn't take uint64") if dtype == "uint64" else None)
        for op in ("Max", "Min")
        for dtype in ("uint8", "int16", "uint64")
    ),
    Case("limits that int32 doesn't hold",
        """g (int64[n] x) => (y) <int64 most = {9223372036854775807}, int64 least = {-5000000000}> {
            a = Min (x, most)
            y = Max (a, least)
        }""",
        feeds={"x": [-(2**31), -5, 2**31 - 1]}),
    # bits
    *(
        Case(f"bits of {dtype}", graph(f"{dtype}[n] a, {dtype}[n] b", BITWISE), feeds=pairs(dtype))
        for dtype in INTEGERS
    ),
    *(
        Case(f"complement of {dtype}", f"g ({dtype}[n] x) => (y) {{ y = BitwiseNot (x) }}",
            feeds={"x": ends(dtype)}, coreml=Refused("32 bits") if dtype in ("uint32", "uint64") else None)
        for dtype in INTEGERS
    ),
    Case("bits of five axes", "g (int32[n, 2, 1, 2, 3] a, int32[2, 4, 1, 3] b) => (y) { y = BitwiseOr (a, b) }",
        sizes={"n": 2}, ranges={"a": (-9999999, 9999999), "b": (-99999, 999999)},
        tflite=Refused("up to four axes")),
    Case("bits of broadcast rows", graph("int64[2, 9] a, int64[9] b", BITWISE),
        ranges={"a": (-99999, 99999), "b": (-99999, 99999)}),
    *(
        Case(f"bits of constant {dtype}", graph(f"{dtype}[n] a", BITWISE, f"{dtype}[3] b = {{5, 77, 127}}"),
            sizes={"n": 3})
        for dtype in ("uint16", "int32", "uint32", "int64")
    ),
    Case("bits of scalars", "g (int64 a, int64 b) => (y) { y = BitwiseXor (a, b) }",
        feeds={"a": -77, "b": 12345}),
    # Cast
    *(
        Case(f"cast twice, by {to}",
            f"""g (float[n] x) => (y1, y2, y3) {{
                a = Cast <to = {to}> (x)
                y1 = Cast <to = 1> (a)
                y2 = Cast <to = 9> (a)
                y3 = Cast <to = 6> (a)
            }}""",
            feeds={"x": [0.0, 0.25, 0.5, 1.0, 1.3, 7.7, 100.01]}, tflite=tflite)
        for to, tflite in ((6, None), (9, None), (10, Differs("float16 is computed in float32")), (2, None))
    ),
    Case("cast like another", "g (float[n] x, int32[m] target_type) => (y) { y = CastLike (x, target_type) }",
        sizes={"m": 3}, feeds={"x": [-1.5, 2.5]}),
    Case("cast to what it is", "g (uint8[n] x) => (y) { y = Cast <to = 7> (x) }",
        sizes={"n": 3}, coreml=Emits(cast=0)),
    *(
        Case(f"{dtype} shifted {direction}",
            f'g ({dtype}[n] a, {dtype}[n] b) => (y) {{ y = BitShift <direction = "{direction}"> (a, b) }}',
            feeds=shifts(dtype, direction),
            tflite=Refused("a BitShift of 64 bits") if dtype == "uint64" else None)
        for dtype in ("uint8", "uint16", "uint32", "uint64")
        for direction in ("LEFT", "RIGHT")
    ),
    *(
        Case(f"cast from {source} to {target}",
            f"g ({source}[n] x) => (y) {{ y = Cast <to = {CODES[target]}> (x) }}",
            feeds={"x": castable(source, target)},
            tflite=Refused("doesn't take uint64") if "uint64" in (source, target) else None)
        for source in CODES
        for target in CODES
        if target != source
    ),
    *(
        Case(f"bits of large {dtype}", graph(f"{dtype}[n] a, {dtype}[n] b", (*BITWISE, "BitwiseNot (a)")),
            feeds={"a": large(dtype), "b": large(dtype)[::-1]},
            coreml=WIDE if dtype == "int64" else Refused("32 bits"))
        for dtype in ("int64", "uint64")
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
