"""Functions and arithmetic of floats, activations, Clip, Softmax: at the ends of their ranges too."""

import numpy as np

from converter.machine import describe_machine
from tests.operators.cases import Case
from tests.operators.running import on_every_target

EDGES = np.asarray(
    [-np.inf, -1e30, -300.0, -2.5, -1.5, -1.0, -0.5, -0.3, -1e-4, -0.0, 0.0, 1e-4, 0.3, 0.5, 0.9999,
     1.0, 1.0001, 1.5, 1.9, 2.0, 2.5, 3.5, 300.0, 1e30, np.inf, np.nan], np.float32,
)  # fmt: skip
NEAR = EDGES[np.abs(EDGES) < 10]
FINITE = EDGES[np.isfinite(EDGES)]
EVERYWHERE = ("Abs", "Atan", "Ceil", "Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sign",
              "Softsign", "Sqrt", "Tanh")  # fmt: skip
LIMITED = "# XNNPACK gives the largest number instead of infinity"
XNNPACK = {
    "Reciprocal": LIMITED,
    "Atanh": LIMITED,
    "Softsign, infinite": LIMITED,
    "Atan, infinite": "# an infinity divided by another",
    "Exp, infinite": "# XNNPACK's of no number",
    **({} if "avx512f" in describe_machine().flags else {"Log, infinite": "# XNNPACK's for AVX2"}),
}
X = [-1e4, -30.0, -3.0, -1.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 3.0, 6.5, 1e4]

# fmt: off
CASES: dict[str, Case | str] = {
    # functions of one number
    **{f"{op}": Case(f"{op}(x[n])", feeds={"x": FINITE}, ios=(15, 18), tflite=XNNPACK.get(op, ""))
       for op in EVERYWHERE},
    **{f"{op} of what isn't finite": Case(f"{op}(x[n])", feeds={"x": [-np.inf, np.inf, np.nan]}, ios=(15, 18),
       tflite=XNNPACK.get(f"{op}, infinite", "")) for op in EVERYWHERE},
    **{op: Case(f"{op}(x[n])", feeds={"x": NEAR}, ios=(15, 18), tflite=XNNPACK.get(op, "")) for op in (
        "Acos", "Acosh", "Asin", "Asinh", "Atanh", "Cos", "Cosh", "Sigmoid", "Sin", "Sinh",
        "Softplus", "Tan")},
    "Gelu by tanh, half of x read besides": Case("""
        x = Abs([1,2,12]); p = Pow(x, $3.0); q = Mul(p, $0.044715); r = Add(x, q); s = Mul(r, $0.7978846); t = Tanh(s)
        u = Add(t, $1.0); h = Mul(x, $0.5); y = Mul(h, u); Neg(y); Abs(h)"""),
    "a scalar": Case("a = Abs(x[]); Sqrt(a)", feeds={"x": -4.0}),
    "one operation each": Case("a = Exp([3]); b = Round(a); c = Log(b); Sqrt(c)",
        coreml="= exp round log sqrt"),
    "signs of zeros": Case("Neg(x[n]); Ceil(x[n]); Reciprocal(x[n])", feeds={"x": [-0.5, -0.0, 0.0, 1]}, tflite=LIMITED),

    # activations
    "activations": Case("""
        Relu(x[n]); LeakyRelu(x[n]); LeakyRelu<alpha=-0.3>(x[n]); Elu(x[n]); Elu<alpha=0.5>(x[n])
        Selu(x[n]); Selu<alpha=0.7, gamma=2.0>(x[n]); Celu(x[n]); Celu<alpha=2.5>(x[n])
        ThresholdedRelu(x[n]); ThresholdedRelu<alpha=0.5>(x[n]); HardSigmoid(x[n])
        HardSigmoid<alpha=0.4, beta=0.3>(x[n]); HardSwish(x[n]); Mish(x[n]); Softplus(x[n])
        Softsign(x[n]); Gelu(x[n]); Gelu<approximate="tanh">(x[n]); Shrink<lambd=0.7, bias=0.2>(x[n])
        """, feeds={"x": X}, ios=(15, 17)),
    "activations of float16": Case("""
        LeakyRelu(float16 x[n]); Elu<alpha=0.5>(float16 x[n]); Selu(float16 x[n])
        Celu<alpha=2.5>(float16 x[n]); HardSwish(float16 x[n]); Gelu(float16 x[n])""", feeds={"x": X}, tol=4e-3, coreml="-cast"),
    "activations of float16, old systems": Case(
        "(LeakyRelu|Selu|HardSwish|Gelu)(float16 x[n])", feeds={"x": X}, tol=4e-3, coreml="cast*5", ios=(15,)),
    "a Celu upside down": Case("Celu<alpha=-1.0>([n])", "n=3", tflite="! a Celu whose alpha is -1.0",
        coreml="! a Celu whose alpha is -1.0"),
    "PRelu of (3,1,1|1,3,1,1|4,5|1)": Case("PRelu([n,3,4,5], ![(3,1,1|1,3,1,1|4,5|1)])", "n=2",
        coreml="(=prelu|prelu|mul|mul)"),
    "PRelu of other ranks": Case("PRelu([n,3,4], ![3,1]); PRelu([n,3], ![3])", "n=2", coreml="mul -prelu"),
    "PRelu of integers and a computed slope": Case("PRelu(int32 x[3], int32 s[1])",
        feeds={"x": [-3, 0, 4], "s": [2]}),
    "Dropout": Case("y, m = Dropout([n,3]); z, k = Dropout([2,3])", "n=1, n=4"),
    "Relu of (int8|int32)": Case("Relu((int8|int32) x[3])", feeds={"x": [-5, 0, 5]}),

    # Clip
    **{f"Clip: {limits}": Case(f"Clip(x[n], {limits})", feeds={"x": X[1:-1]}, coreml=f"= {kinds}")
       for limits, kinds in {
           "$-0.5, $0.7": "clip", "$0.0, $6.0": "relu6", "$0.0": "relu", ", $0.7": "minimum",
           "$-0.5": "maximum", "$2.0, $1.0": "maximum minimum", "$1.0, $1.0": "maximum minimum",
           "$1e-6, $3.4e38": "clip"}.items()},
    "Clip to computed limits": Case("Clip(x[n], l[], h[])", feeds={"x": X, "l": -0.7, "h": 2.0}, tflite="! have to be constant"),
    "Clip of (int64|int32|uint8)":
        Case("Clip((int64|int32|uint8) x[n], (int64|int32|uint8)$(=-3|-3|3), (int64|int32|uint8)$(=9223372036854775807|5|200))",
        feeds={"x": [0, 1, 4, 7, 100]}),
    "Clip to the least int64": Case("Clip(int64 x[n], int64$-9223372036854775808, int64$9)",
        feeds={"x": [0, 1, 4, 7, 100]}),

    # Softmax
    "Softmax and its like": Case("(Softmax|LogSoftmax)<axis=(-1|0|1)>(x[n,3,m]); Hardmax<axis=1>(x[n,3,m])", "",
        [{"x": np.random.default_rng(0).standard_normal((2, 3, 4)) * by} for by in (1, 1000)]),
    "Hardmax along free axes": Case("Hardmax<axis=(0|-1)>(x[n,3,m])", "n=2 m=4"),
    "Hardmax of equal numbers": Case("Hardmax(x[n,4])",
        feeds={"x": [[1, 3, 3, 2], [5, 5, 5, 5], [0, 1, 0, 1]]}),
    "Softmax of a masked row": Case("a = Add(float16 x[n,4], float16 m[n,4]); Softmax(a)",
        feeds={"x": np.zeros((2, 4)), "m": np.full((2, 4), -65504.0)}, tol=1e-3),

    # arithmetic
    "of (1|2|4) operands": Case(
        "(Max|Min|Sum|Mean)((=a[n,3]|a[n,3], b[3]|a[n,3], b[3], c[1,1], d[n,1]))", "n=2, n=5"),
    "a constant and what is multiplied by 0": Case(
        "a = Mul(x[n,3,m], $0.0); (Max|Min)(a, c![1,(1|3),4])", "n=2 m=4, n=5 m=1"),
    "a square": Case("Pow(x[n], $2.0)", feeds={"x": [-3.0, 0.5]}, coreml="= square"),
    "remainders of (float|float16)": Case("Mod<fmod=1>((float|float16) a[n], (float|float16) b[n])", feeds={
        "a": [-4.3, 7.2, 5.0, 4.3, -7.2, 8.0, 1e4, -1e-5, 3.0],
        "b": [2.1, -3.4, 8.0, -2.1, 3.4, 5.0, 0.3, 1.0, np.inf]}),
    "divided by nothing": Case("Div(a[n], b[n])", feeds={"a": [1, -1, 0], "b": [0, 0, 0]}, tflite=LIMITED),
    "float16 by a large number": Case("Div(float16 x[n], float16$50000.0)",
        feeds={"x": [30000, 60000, -44444]}, tol=1e-3),
}
for base, exponent, b in (
    ("float", "float", [0.5, 2, 3.5, 2, 0]), ("float", "int64", [0, 2, 3, 4, 5]),
    ("int32", "int32", [0, 2, 3, 4, 5]), ("int64", "float", [0.5, 2, 3.5, 2, 0]),
):
    CASES[f"{base} to a power of {exponent}"] = Case(
        f"Pow({base} a[n], {exponent} b[n])", feeds={"a": [1, 2, 3, 4, 5], "b": b})

test = on_every_target(CASES)
