"""MatMul, Gemm, Einsum, integer products, Det: weights, vectors, free sizes, halves."""

from tests.operators.cases import Case
from tests.operators.running import on_every_target

PRODUCTS = """
    MatMul([3], W[3]); MatMul([3], W[3,4]); MatMul([2,3], W[3]); MatMul([3], W[2,3,4])
    MatMul([5,2,3], W[3]); MatMul([2,3], W[3,4]); MatMul([2,5,2,3], W[3,4]); MatMul([2,3], W[5,3,4])
    MatMul([5,1,2,3], W[4,3,2]); MatMul([2,1,5,2,3], W[2,4,1,3,2])"""
GEMMS = """
    Gemm<alpha=0.5, beta=2.0>([2,3], W[3,4]); Gemm<alpha=0.5, beta=2.0, transA=1>([3,2], W[3,4], W[])
    Gemm<alpha=0.5, beta=2.0, transB=1>([2,3], W[4,3], W[1])
    Gemm<alpha=0.5, beta=2.0>([2,3], W[3,4], W[4])
    Gemm<alpha=0.5, beta=2.0, transB=1>([2,3], W[4,3], W[1,4])
    Gemm<alpha=0.5, beta=2.0, transA=1, transB=1>([3,2], W[4,3], W[2,1])
    Gemm<alpha=0.5, beta=2.0, transB=1>([2,3], W[4,3], W[2,4])"""
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "i": 2, "j": 3, "k": 4, "h": 3, "l": 5}
EQUATIONS = [
    "bhid,bhjd->bhij", "bhij,bjhd->bihd", "ij->", "ba", "ij,j", "i,j->ij", "ij,ij->ij",
    "ij,jk,kd->id", "ab,bc,a->c", "ijk,ilk->jil", "ij,kd->dj",
    " b i j , b j k -> b i k ",
]  # fmt: skip


def einsums(free: bool, equations: list[str]) -> str:
    """A node for each equation, its sizes known or free."""
    lines = []
    for equation in equations:
        terms = equation.replace(" ", "").partition("->")[0].split(",")
        operands = ["[" + ",".join(c if free else str(SIZES[c]) for c in t) + "]" for t in terms]
        lines.append(f'Einsum<equation="{equation}">({", ".join(operands)})')
    return "\n".join(lines)


# fmt: off
CASES: dict[str, Case | str] = {
    "MatMul": PRODUCTS.replace("W", ""),
    "MatMul with weights": PRODUCTS.replace("W", "!"),
    "MatMul of free sizes": Case("MatMul([b,1,m,k], [h,k,n])", "b=1 m=2 k=4 h=3 n=2, b=2 m=5 k=4 h=3 n=2"),
    "a weight with its bias": Case("m = MatMul([b,n,3], ![3,4]); Add(m, ![4])", "b=2 n=1, b=2 n=5",
        coreml="linear*1 -add", tflite="FULLY_CONNECTED"),
    "float16": Case("Gemm<alpha=0.5>(float16[n,8], float16![8,4], float16![4])", "n=3", tol=2e-3,
        ios=(16, 17, 18, 26)),
    "MatMul of (int32|int64|uint32)": Case("MatMul((int32|int64|uint32)[n,3]~0:9, (int32|int64|uint32)[3,2]~0:9)",
        "n=4", tflite="! multiplies matrices of float32"),
    "Gemm": GEMMS.replace("W", ""),
    "Gemm with weights": GEMMS.replace("W", "!"),
    "MatMulInteger": """MatMulInteger(uint8 x[4,90]~0:256, int8 w[90,2]~-128:128, uint8 p[]~0:256, int8 ([]|[2])~-128:128)
        MatMulInteger(uint8 x[4,90]~0:256, int8 w[90,2]~-128:128, uint8 r[1]~0:256, int8 s[1]~-128:128)""",
    "MatMulInteger of long rows": Case("""
        MatMulInteger(uint8[4,300]~0:256, int8[300,2]~-128:128, uint8[]~0:256, int8[]~-128:128)""",
        tflite="! may exceed 2^24"),
    "determinants of (1|2|3|4) rows": Case("Det([n,2,(1|2|3|4),(1|2|3|4)])", "n=3"),
    "DynamicQuantizeLinear": Case("y, s, z = DynamicQuantizeLinear(x[n,m])", feeds=[
        {"x": x} for x in ([[0.3, -1.7, 2.2], [0.01, 1.1, -0.4]], [[1.5, 2.25], [1.1, 7]])]),
    "DynamicQuantizeLinear of zeros": Case("y, s, z = DynamicQuantizeLinear(x[n,m])", feeds={"x": [[0] * 3] * 2}),
    "a tensor and its transpose: (b, a|a, b) of (2|3)": Case("""
        a = Transpose<perm=[0,2,1]>([2,3,(2|3)]); b = Transpose<perm=[0,2,1]>(a); MatMul((b, a|a, b)); Relu(a)""",
        coreml="transpose*1"),
    "Einsum of free sizes": Case(einsums(True, EQUATIONS), " ".join(f"{k}={v}" for k, v in SIZES.items())),
    "Einsum of known sizes": einsums(False, EQUATIONS),
    "Einsum of diagonals": einsums(False, ["iji->j", "iikk->ik"]),
    "Einsum with ellipses": """
        Einsum<equation="...ij,...jk->...ik">([2,3,2,4], [2,3,4,5])
        Einsum<equation="...ij,jk">([2,3,4], [4,5]);
        Einsum<equation="ij...->j...i">([2,3,4])
        Einsum<equation="a...,a...->...">([2,3,4], [2,3,4])""",
    "Einsum of pairs of axes": einsums(False, ["abcd,abcd->bd"]),
    "Einsum of pairs of free axes": Case(einsums(True, ["abcd,abcd->bd"]), "a=2 b=3 c=4 d=5"),
    "Einsum that broadcasts": 'Einsum<equation="...ij,...jk->...ik">([1,2,4], [3,4,5])',
    "Einsum of a diagonal with ellipses": 'Einsum<equation="...ii->...i">([2,3,3])',
    "Einsum of a free diagonal": Case('Einsum<equation="ii->i">([n,n])', "n=3"),
}
for after in ("Sub($2.0, a)", "Add(a, $2.0)", "Sub(a, $2.0)", "Add(a, ![1,1,1,1])"):
    CASES[f"behind a product of one column: {after}"] = f"a = MatMul([2,6,4], ![4,1]); {after}"
CASES["a product of four axes and a constant"] = "m = MatMul([2,3,4,5], ![5,3]); (Sub|Add)(![3], m)"
for parts, kind in ((1, "onesided=1"), (1, "inverse=0"), (2, "inverse=0"), (2, "inverse=1")):
    CASES[f"DFT of {parts}, {kind}"] = Case(
        f"DFT<{kind}>(x[b,9,c,{parts}], (|$5|$12), $1)", "b=2 c=3", tol=1e-4)
CASES |= {
    "DFT along a free axis": Case("DFT([b,n,1], , $1)", "b=1 n=4", coreml="! along a free axis", tflite="! along a free axis"),
    "STFT of (60|l) samples": Case("float[b,f,k,2] y = STFT<onesided=1>([b,(60|l),1], $7, [16]~0:1); float[b,f,k,2] z = STFT<onesided=1>([b,(60|l),1], $7, ![16])",
        "b=2 l=60", tol=1e-4),
    "STFT of other lengths": Case("float[b,f,k,2] y = STFT<onesided=1>([b,l,1], $7, [16]~0:1)", "b=2 l=61, b=2 l=16", tol=1e-4),
    "log mel spectrogram": Case("""
        w = HannWindow($16); float[b,f,9,2] s = STFT<onesided=1>([b,l,1], $8, w); q = ReduceSumSquare<keepdims=0>(s, {-1})
        m = MelWeightMatrix($8, $16, $8000, $0.0, $4000.0); e = MatMul(q, m); t = Add(e, $0.001); float[b,f,8] y = Log(t)""",
        "b=2 l=80", tol=1e-4),
    "norms of a spectrum's halves": Case("""
        w = HannWindow($16); float[b,f,9,2] s = STFT<onesided=1>([b,l,1], $8, w)
        t = Transpose<perm=[0,2,1,3]>(s); q = ReduceL2<keepdims=0>(t, {-1}); HardSigmoid(q)""", "b=2 l=80", tol=1e-4),
}

test = on_every_target(CASES)
