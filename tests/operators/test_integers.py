"""Integers: arithmetic that wraps around, division, bits, casts between all types."""

from itertools import product

import numpy as np

from tests.operators.cases import TYPES, Array, Case
from tests.operators.running import on_every_target

LARGE = 2**63 - 1
WIDE = "~ don't fit into 32 bits"
PAIRS = np.asarray(list(product((-7, -6, -1, 0, 1, 6, 7), (-7, -3, -2, -1, 1, 2, 3))))
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
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


# fmt: off
CASES: dict[str, Case | str] = {
    # division
    **{f"divided: {dtype}": Case(f"Div({dtype} a[n], {dtype} b[n]); Mod({dtype} a[n], {dtype} b[n]); "
        f"Mod<fmod=1>({dtype} a[n], {dtype} b[n])",
        feeds=dict(zip("ab", (np.abs(PAIRS) if dtype[0] == "u" else PAIRS).T, strict=True)), ios=(15, 17),
        tflite="! doesn't take uint32" if dtype == "uint32" else "")
       for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64")},
    "divided: the least int32": Case("Div(int32 a[n], int32 b[n])",
        feeds={"a": [-(2**31), -(2**31), 2**31 - 1, -(2**31) + 1], "b": [2, 3, -2, 2]}),
    "divided: large int64": Case("Div(int64 a[n], int64 b[n])", feeds={
        "a": [LARGE, -LARGE, LARGE, -LARGE - 1, LARGE, LARGE], "b": [1, 1, 3, 2, 10**9 + 7, LARGE]}, coreml=WIDE),
    "divided: close int64": Case("Div(int64 a[n], int64 b[n])", feeds={
        "a": [2**53 - 1, 2**53, 10**18, 10**18 - 1, -(10**18), 6],
        "b": [2**26 + 1, 2**53, 10**9, 10**9, 10**9 - 1, -(2**40)]}, coreml=WIDE),
    "divided: random int64": Case("Div(int64 a[n], int64 b[n])", feeds=random(), coreml=WIDE),
    "sizes are divided in 32 bits": Case("""
        s = Shape([n,c,h,w]); h = Gather(s, {2}); m = Sub(h, {1}); d = Div(m, {2}); Add(d, {1})""",
        "n=1 c=2 h=9 w=3", tflite="DIV*1"),
    "sizes need no truncation": Case("""
        s = Shape([n,m]); m = Gather(s, {0}); d = Div(m, {2}); t = Mul(d, {2}); Div(t, m)""",
        "n=5 m=2, n=6 m=2", coreml="floor_div*2 -not_equal"),

    # one number
    "(Abs|Sign|Neg) of int64": Case("(Abs|Sign|Neg)(int64 x[n])", feeds={"x": [-LARGE, -2, 0, 1, LARGE]},
        coreml=WIDE),
    "(Abs|Neg) of int8": Case("(Abs|Neg)(int8 x[n])", feeds={"x": [-128, -127, 5]}),
    "Abs of int32": Case("Abs(int32 x[n])", feeds={"x": [-(2**31) + 1, 3]}),
    "Neg of int16": Case("Neg(int16 x[n])", feeds={"x": [-(2**15), 7]}),
    "Sign of uint8": Case("Sign(uint8 x[n])", feeds={"x": [0, 255]}),
    "sizes that differ": Case("Abs(int8 a[n]); Neg(int16 b[m]); Sign(int64 c[p])", "n=3 m=2 p=7"),

    # two numbers
    **{f"{op} of {dtype}": Case(f"{op}({dtype} a[n], {dtype} b[n])", feeds=pairs(dtype))
       for op in ("Add", "Sub", "Mul") for dtype in ("int8", "uint8", "int16", "uint16")},
    "an Add of int64": Case("Add(int64[n], int64[n])", "n=4", coreml="= add"),
    **{f"{op} of {dtype}": Case(f"{op}({dtype} a[n], {dtype} b[n])", feeds=pairs(dtype),
        tflite="! doesn't take uint64" if dtype == "uint64" else "") for op in ("Max", "Min") for dtype in ("uint8", "int16", "uint64")},
    "limits that int32 doesn't hold": Case("a = Min(int64 x[n], $9223372036854775807); Max(a, $-5000000000)",
        feeds={"x": [-(2**31), -5, 2**31 - 1]}),

    # bits
    **{f"bits of {dtype}": Case(
        f"Bitwise(And|Or|Xor)({dtype} a[n], {dtype} b[n])", feeds=pairs(dtype)) for dtype in INTEGERS},
    **{f"complement of {dtype}": Case(f"BitwiseNot({dtype} x[n])", feeds={"x": ends(dtype)},
        coreml="! 32 bits" if dtype in ("uint32", "uint64") else "") for dtype in INTEGERS},
    "bits of five axes": Case("BitwiseOr(int32[n,2,1,2,3]~-9999999:9999999, int32[2,4,1,3]~-99999:999999)",
        "n=2", tflite="! up to four axes"),
    "bits of broadcast rows": "Bitwise(And|Or|Xor)(int64 a[2,9]~-99999:99999, int64 b[9]~-99999:99999)",
    **{f"bits of constant {dtype}": Case(f"Bitwise(And|Or|Xor)({dtype} a[n], {dtype}{{5, 77, 127}})", "n=3")
       for dtype in ("uint16", "int32", "uint32", "int64")},
    "bits of scalars": Case("BitwiseXor(int64 a[], int64 b[])", feeds={"a": -77, "b": 12345}),

    # Cast
    "cast twice, by (6|9|10|2)": Case("""
        a = Cast<to=(6|9|10|2)>(x[n]); Cast<to=1>(a); Cast<to=9>(a); Cast<to=6>(a)""",
        feeds={"x": [0.0, 0.25, 0.5, 1.0, 1.3, 7.7, 100.01]},
        tflite="(=||# float16 is computed in float32|)"),
    "cast like another": Case("CastLike(x[n], int32[m])", "m=3", {"x": [-1.5, 2.5]}),
    "cast to what it is": Case("Cast<to=7>(uint8[n])", "n=3", coreml="-cast"),
}
for dtype, direction in product(("uint8", "uint16", "uint32", "uint64"), ("LEFT", "RIGHT")):
    bits = min(np.dtype(dtype).itemsize * 8, 31)
    given = (0, 1, 5, 77, 2**bits - 1) if bits < 31 or direction == "RIGHT" else (1,)
    a, b = np.asarray(list(product(given, range(bits))), np.uint64).T
    CASES[f"{dtype} shifted {direction}"] = Case(
        f'BitShift<direction="{direction}">({dtype} a[n], {dtype} b[n])', feeds={"a": a, "b": b},
        tflite="! a BitShift of 64 bits" if dtype == "uint64" else "")
for source in CODES:
    dtype = np.dtype(TYPES[source])
    lines, feeds = dict[str, str](), {}
    for target in CODES:
        if target == source:
            continue
        if dtype.kind in "iu":
            info = np.iinfo("int32" if dtype.itemsize > 2 else dtype)
            low = 0 if source[0] == "u" or target in ("uint32", "uint64") else info.min
            listed = [info.min, info.min + 1, -129, -1, 0, 1, 127, 128, 255, 256, 65535, info.max]
            if target in ("float", "float16", "bool"):
                listed = [0, 1, 100, 127]
            values = [number for number in listed if low <= number <= info.max]
        elif source == "bool":
            values = [1, 0]
        else:
            values = [0.0, -0.0, 0.5, 0.99, 1.5, 2.5, 100.7]
            values += [] if target[0] == "u" else [-0.5, -0.99, -1.5, -100.7]
        lines[target] = f"Cast<to={CODES[target]}>({source} to_{target}[n_{target}])"
        feeds[f"to_{target}"] = values
    apart = {target: feeds.pop(f"to_{target}") for target in ("uint64",) if target in lines}
    for target, values in apart.items():
        CASES[f"cast from {source} to {target}"] = Case(lines.pop(target), tflite="! doesn't take uint64",
            feeds={f"to_{target}": values})
    CASES[f"cast from {source}"] = Case("\n".join(lines.values()), feeds=feeds,
        tflite="! doesn't take uint64" if source == "uint64" else "")

for dtype in ("int64", "uint64"):
    info, seeded = np.iinfo(dtype), np.random.default_rng(0)
    wide = seeded.integers(info.min, info.max, 18, dtype, endpoint=True)
    wide[:2] = info.min, info.max
    CASES[f"bits of large {dtype}"] = Case(
        f"Bitwise(And|Or|Xor)({dtype} a[n], {dtype} b[n]); BitwiseNot({dtype} a[n])",
        feeds={"a": wide, "b": wide[::-1]}, coreml=WIDE if dtype == "int64" else "! 32 bits")

test = on_every_target(CASES)
