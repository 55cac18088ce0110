"""MatMul, Gemm, Einsum, integer products, Det: weights, vectors, free sizes, halves."""

import pytest

from tests.operators.cases import Case, Emits, Refused
from tests.operators.running import TARGETS, check

PRODUCTS = [
    ("3", "3"), ("3", "3, 4"), ("2, 3", "3"), ("3", "2, 3, 4"), ("5, 2, 3", "3"), ("2, 3", "3, 4"),
    ("2, 5, 2, 3", "3, 4"), ("2, 3", "5, 3, 4"), ("5, 1, 2, 3", "4, 3, 2"), ("2, 1, 5, 2, 3", "2, 4, 1, 3, 2"),
]  # fmt: skip
GEMMS = [
    # attributes, sizes of a, the other operands
    ("", "2, 3", "float[3, 4] b"),
    (", transA = 1", "3, 2", "float[3, 4] b, float c"),
    (", transB = 1", "2, 3", "float[4, 3] b, float[1] c"),
    ("", "2, 3", "float[3, 4] b, float[4] c"),
    (", transB = 1", "2, 3", "float[4, 3] b, float[1, 4] c"),
    (", transA = 1, transB = 1", "3, 2", "float[4, 3] b, float[2, 1] c"),
    (", transB = 1", "2, 3", "float[4, 3] b, float[2, 4] c"),
]
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "i": 2, "j": 3, "k": 4, "h": 3, "l": 5}
EQUATIONS = [
    "bhid,bhjd->bhij", "bhij,bjhd->bihd", "ij->", "ba", "ij,j", "i,j->ij", "ij,ij->ij",
    "ij,jk,kd->id", "ab,bc,a->c", "ijk,ilk->jil", "ij,kd->dj",
    " b i j , b j k -> b i k ",
]  # fmt: skip


def einsum(equation: str, free: bool) -> str:
    """A graph of one, its sizes known or free."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    shapes = [
        ", ".join(letter if free else str(SIZES[letter]) for letter in term) for term in terms
    ]
    inputs = ", ".join(f"float[{shape}] x{number}" for number, shape in enumerate(shapes))
    operands = ", ".join(f"x{number}" for number in range(len(terms)))
    return f'g ({inputs}) => (y) {{ y = Einsum <equation = "{equation}"> ({operands}) }}'


def gemm(more: str, a: str, others: str, constant: bool) -> str:
    """A graph of one, whose other operands are inputs or weights."""
    operands = "a, b, c" if others.endswith(" c") else "a, b"
    inputs = f"float[{a}] a" if constant else f"float[{a}] a, {others}"
    node = f"Gemm <alpha = 0.5, beta = 2.0{more}> ({operands})"
    return f"g ({inputs}) => (y) <{others if constant else ''}> {{ y = {node} }}"


# fmt: off
CASES: list[Case] = [
    *(
        Case(f"MatMul: [{a}] and [{b}]", f"g (float[{a}] a, float[{b}] b) => (y) {{ y = MatMul (a, b) }}")
        for a, b in PRODUCTS
    ),
    *(
        Case(f"MatMul with weights: [{a}] and [{b}]",
            f"g (float[{a}] a) => (y) <float[{b}] b> {{ y = MatMul (a, b) }}")
        for a, b in PRODUCTS
    ),
    Case("MatMul of free sizes", "g (float[b, 1, m, k] a, float[h, k, n] b) => (y) { y = MatMul (a, b) }",
        sizes=[{"b": 1, "m": 2, "k": 4, "h": 3, "n": 2}, {"b": 2, "m": 5, "k": 4, "h": 3, "n": 2}]),
    Case("a weight with its bias",
        """g (float[b, n, 3] a) => (y) <float[3, 4] b, float[4] b1> {
            m = MatMul (a, b)
            y = Add (m, b1)
        }""",
        sizes=[{"b": 2, "n": 1}, {"b": 2, "n": 5}], tflite=Emits("FULLY_CONNECTED"),
        coreml=Emits(linear=1, add=0)),
    Case("float16",
        "g (float16[n, 8] a) => (y) <float16[8, 4] b, float16[4] c> { y = Gemm <alpha = 0.5> (a, b, c) }",
        sizes={"n": 3}, tol=2e-3, ios=(16, 17, 18, 26)),
    *(
        Case(f"MatMul of {dtype}", f"g ({dtype}[n, 3] a, {dtype}[3, 2] b) => (y) {{ y = MatMul (a, b) }}",
            sizes={"n": 4}, ranges={"a": (0, 9), "b": (0, 9)}, tflite=Refused("multiplies matrices of float32"))
        for dtype in ("int32", "int64", "uint32")
    ),
    *(
        Case(f"Gemm: float[{a}] a, {others}{more}", gemm(more, a, others, False))
        for more, a, others in GEMMS
    ),
    *(
        Case(f"Gemm with weights: float[{a}] a, {others}{more}", gemm(more, a, others, True))
        for more, a, others in GEMMS
    ),
    Case("MatMulInteger",
        """g (uint8[4, 90] x, int8[90, 2] w, uint8 p, int8 q, int8[2] qs,
            uint8[1] r, int8[1] s) => (y1, y2, y3) {
            y1 = MatMulInteger (x, w, p, q)
            y2 = MatMulInteger (x, w, p, qs)
            y3 = MatMulInteger (x, w, r, s)
        }""",
        ranges=dict.fromkeys(("x", "p", "r"), (0, 256))
            | dict.fromkeys(("w", "q", "qs", "s"), (-128, 128))),
    Case("MatMulInteger of long rows",
        """g (uint8[4, 300] a, int8[300, 2] b, uint8 a_zero_point, int8 b_zero_point) => (y) {
            y = MatMulInteger (a, b, a_zero_point, b_zero_point)
        }""",
        ranges={"a": (0, 256), "b": (-128, 128), "a_zero_point": (0, 256), "b_zero_point": (-128, 128)},
        tflite=Refused("may exceed 2^24")),
    *(
        Case(f"determinants of {rows} rows", f"g (float[n, 2, {rows}, {rows}] x) => (y) {{ y = Det (x) }}",
            sizes={"n": 3})
        for rows in (1, 2, 3, 4)
    ),
    Case("DynamicQuantizeLinear", "g (float[n, m] x) => (y, s, z) { y, s, z = DynamicQuantizeLinear (x) }",
        feeds=[{"x": x} for x in ([[0.3, -1.7, 2.2], [0.01, 1.1, -0.4]], [[1.5, 2.25], [1.1, 7]])]),
    Case("DynamicQuantizeLinear of zeros",
        "g (float[n, m] x) => (y, s, z) { y, s, z = DynamicQuantizeLinear (x) }",
        feeds={"x": [[0] * 3] * 2}),
    *(
        Case(f"a tensor and its transpose: {operands} of {size}",
            f"""g (float[2, 3, {size}] x) => (y1, y2) {{
                a = Transpose <perm = [0, 2, 1]> (x)
                b = Transpose <perm = [0, 2, 1]> (a)
                y1 = MatMul ({operands})
                y2 = Relu (a)
            }}""",
            coreml=Emits(transpose=1))
        for operands in ("b, a", "a, b")
        for size in (2, 3)
    ),
    *(
        Case(f"Einsum of free sizes: {equation}", einsum(equation, True), sizes=SIZES)
        for equation in (*EQUATIONS, "abcd,abcd->bd")
    ),
    *(
        Case(f"Einsum of known sizes: {equation}", einsum(equation, False))
        for equation in (*EQUATIONS, "iji->j", "iikk->ik", "abcd,abcd->bd")
    ),
    Case("Einsum with ellipses",
        """g (float[2, 3, 2, 4] x, float[2, 3, 4, 5] x1, float[2, 3, 4] x2, float[4, 5] x3,
            float[2, 3, 4] x4, float[2, 3, 4] x5, float[2, 3, 4] x6) => (y1, y2, y3, y4) {
            y1 = Einsum <equation = "...ij,...jk->...ik"> (x, x1)
            y2 = Einsum <equation = "...ij,jk"> (x2, x3)
            y3 = Einsum <equation = "ij...->j...i"> (x4)
            y4 = Einsum <equation = "a...,a...->..."> (x5, x6)
        }"""),
    Case("Einsum that broadcasts",
        'g (float[1, 2, 4] x, float[3, 4, 5] x1) => (y) { y = Einsum <equation = "...ij,...jk->...ik"> (x, x1) }'),
    Case("Einsum of a diagonal with ellipses",
        'g (float[2, 3, 3] x) => (y) { y = Einsum <equation = "...ii->...i"> (x) }'),
    Case("Einsum of a free diagonal", 'g (float[n, n] x) => (y) { y = Einsum <equation = "ii->i"> (x) }',
        sizes={"n": 3}),
    *(
        Case(f"behind a product of one column: {node}",
            f"""g (float[2, 6, 4] x) => (y) <float[4, 1] w, {other}> {{
                a = MatMul (x, w)
                y = {node}
            }}""")
        for node, other in (
            ("Sub (two, a)", "float two = {2.0}"),
            ("Add (a, two)", "float two = {2.0}"),
            ("Sub (a, two)", "float two = {2.0}"),
            ("Add (a, b)", "float[1, 1, 1, 1] b"),
        )
    ),
    Case("a product of four axes and a constant",
        """g (float[2, 3, 4, 5] x) => (y, z) <float[5, 3] w, float[3] b> {
            m = MatMul (x, w)
            y = Sub (b, m)
            z = Add (b, m)
        }"""),
    # spectra
    *(
        Case(f"DFT of {parts}, {kind}, {name}",
            f"""g (float[b, 9, c, {parts}] x) => (y) <{length}int64 axis = {{1}}> {{
                y = DFT <{kind}> (x, {operand}, axis)
            }}""",
            sizes={"b": 2, "c": 3}, tol=1e-4)
        for parts, kind in ((1, "onesided = 1"), (1, "inverse = 0"), (2, "inverse = 0"), (2, "inverse = 1"))
        for name, operand, length in (
            ("of all", '""', ""),
            ("of 5", "length", "int64 length = {5}, "),
            ("of 12", "length", "int64 length = {12}, "),
        )
    ),
    Case("DFT along a free axis", 'g (float[b, n, 1] x) => (y) <int64 axis = {1}> { y = DFT (x, "", axis) }',
        sizes={"b": 1, "n": 4}, tflite=Refused("along a free axis"), coreml=Refused("along a free axis")),
    *(
        Case(f"STFT of {length} samples",
            f"""g (float[b, {length}, 1] x, float[16] window) => (float[b, {frames}, 9, 2] y, float[b, {frames}, 9, 2] z)
                <float[16] w, int64 step = {{7}}> {{
                y = STFT <onesided = 1> (x, step, window)
                z = STFT <onesided = 1> (x, step, w)
            }}""",
            sizes={"b": 2, "l": 60}, ranges={"window": (0, 1)}, tol=1e-4)
        for length, frames in ((60, 7), ("l", "f"))
    ),
    Case("STFT of other lengths",
        """g (float[b, l, 1] x, float[16] window) => (float[b, f, k, 2] y) <int64 step = {7}> {
            y = STFT <onesided = 1> (x, step, window)
        }""",
        sizes=[{"b": 2, "l": 61}, {"b": 2, "l": 16}], ranges={"window": (0, 1)}, tol=1e-4),
    Case("log mel spectrogram",
        """g (float[b, l, 1] x) => (float[b, f, 8] y)
            <int64 size = {16}, int64 step = {8}, float[b, f, 9, 2] s, int64[1] last = {-1},
            int64 mels = {8}, int64 rate = {8000}, float lowest = {0.0}, float highest = {4000.0},
            float least = {0.001}> {
            w = HannWindow (size)
            s = STFT <onesided = 1> (x, step, w)
            q = ReduceSumSquare <keepdims = 0> (s, last)
            m = MelWeightMatrix (mels, size, rate, lowest, highest)
            e = MatMul (q, m)
            t = Add (e, least)
            y = Log (t)
        }""",
        sizes={"b": 2, "l": 80}, tol=1e-4),
    Case("norms of a spectrum's halves",
        """g (float[b, l, 1] x) => (y)
            <int64 size = {16}, int64 step = {8}, float[b, f, 9, 2] s, int64[1] last = {-1}> {
            w = HannWindow (size)
            s = STFT <onesided = 1> (x, step, w)
            t = Transpose <perm = [0, 2, 1, 3]> (s)
            q = ReduceL2 <keepdims = 0> (t, last)
            y = HardSigmoid (q)
        }""",
        sizes={"b": 2, "l": 80}, tol=1e-4),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
