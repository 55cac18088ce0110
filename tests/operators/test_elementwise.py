"""Functions and arithmetic of floats, activations, Clip, Softmax: at the ends of their ranges too."""

import numpy as np
import pytest

from converter.machine import describe_machine
from tests.operators.cases import Case, Differs, Emits, Only, Refused, graph
from tests.operators.running import TARGETS, check

EDGES = np.asarray(
    [-np.inf, -1e30, -300.0, -2.5, -1.5, -1.0, -0.5, -0.3, -1e-4, -0.0, 0.0, 1e-4, 0.3, 0.5, 0.9999,
     1.0, 1.0001, 1.5, 1.9, 2.0, 2.5, 3.5, 300.0, 1e30, np.inf, np.nan], np.float32,
)  # fmt: skip
NEAR = EDGES[np.abs(EDGES) < 10]
FINITE = EDGES[np.isfinite(EDGES)]
EVERYWHERE = ("Abs", "Atan", "Ceil", "Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sign",
              "Softsign", "Sqrt", "Tanh")  # fmt: skip
NEARBY = ("Acos", "Acosh", "Asin", "Asinh", "Atanh", "Cos", "Cosh", "Sigmoid", "Sin", "Sinh", "Softplus", "Tan")  # fmt: skip
LIMITED = Differs("XNNPACK gives the largest number instead of infinity")
XNNPACK = {
    "Reciprocal": LIMITED,
    "Atanh": LIMITED,
    "Softsign, infinite": LIMITED,
    "Atan, infinite": Differs("an infinity divided by another"),
    "Exp, infinite": Differs("XNNPACK's of no number"),
}
if "avx512f" not in describe_machine().flags:
    XNNPACK["Log, infinite"] = Differs("XNNPACK's for AVX2")
X = [-1e4, -30.0, -3.0, -1.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 1.0, 3.0, 6.5, 1e4]
OPERANDS = ["float[n, 3] a", "float[3] b", "float[1, 1] c", "float[n, 1] d"]
CLIPS = [
    # operands, limits, and the operation
    ("x, low, high", "float low = {-0.5}, float high = {0.7}", "clip"),
    ("x, low, high", "float low = {0.0}, float high = {6.0}", "relu6"),
    ("x, low", "float low = {0.0}", "relu"),
    ('x, "", high', "float high = {0.7}", "minimum"),
    ("x, low", "float low = {-0.5}", "maximum"),
    ("x, low, high", "float low = {2.0}, float high = {1.0}", "maximum minimum"),
    ("x, low, high", "float low = {1.0}, float high = {1.0}", "maximum minimum"),
    ("x, low, high", "float low = {1e-6}, float high = {3.4e38}", "clip"),
]

# fmt: off
CASES: list[Case] = [
    # functions of one number
    *(
        Case(op, f"g (float[n] x) => (y) {{ y = {op} (x) }}",
            feeds={"x": FINITE if op in EVERYWHERE else NEAR}, tflite=XNNPACK.get(op), ios=(15, 18))
        for op in EVERYWHERE + NEARBY
    ),
    *(
        Case(f"{op} of what isn't finite", f"g (float[n] x) => (y) {{ y = {op} (x) }}",
            feeds={"x": [-np.inf, np.inf, np.nan]}, tflite=XNNPACK.get(f"{op}, infinite"), ios=(15, 18))
        for op in EVERYWHERE
    ),
    Case("Gelu by tanh, half of x read besides",
        """g (float[1, 2, 12] input) => (y1, y2)
            <float three = {3.0}, float cubes = {0.044715}, float root = {0.7978846},
            float one = {1.0}, float half = {0.5}> {
            x = Abs (input)
            p = Pow (x, three)
            q = Mul (p, cubes)
            r = Add (x, q)
            s = Mul (r, root)
            t = Tanh (s)
            u = Add (t, one)
            h = Mul (x, half)
            y = Mul (h, u)
            y1 = Neg (y)
            y2 = Abs (h)
        }"""),
    Case("bfloat16 at a border", "g (float[n] x) => (bfloat16[n] y) { y = Cast<to = 16>(x) }",
         tflite=Refused("no bfloat16"), coreml=Refused("no bfloat16")),
    Case("a scalar",
        """g (float x) => (y) {
            a = Abs (x)
            y = Sqrt (a)
        }""",
        feeds={"x": -4.0}),
    Case("one operation each",
        """g (float[3] x) => (y) {
            a = Exp (x)
            b = Round (a)
            c = Log (b)
            y = Sqrt (c)
        }""",
        coreml=Only("exp", "round", "log", "sqrt")),
    Case("signs of zeros",
        """g (float[n] x) => (y1, y2, y3) {
            y1 = Neg (x)
            y2 = Ceil (x)
            y3 = Reciprocal (x)
        }""",
        feeds={"x": [-0.5, -0.0, 0.0, 1]}, tflite=LIMITED),
    # activations
    Case("activations",
        graph(
            "float[n] x",
            [
                "Relu (x)",
                "LeakyRelu (x)",
                "LeakyRelu <alpha = -0.3> (x)",
                "Elu (x)",
                "Elu <alpha = 0.5> (x)",
                "Selu (x)",
                "Selu <alpha = 0.7, gamma = 2.0> (x)",
                "Celu (x)",
                "Celu <alpha = 2.5> (x)",
                "ThresholdedRelu (x)",
                "ThresholdedRelu <alpha = 0.5> (x)",
                "HardSigmoid (x)",
                "HardSigmoid <alpha = 0.4, beta = 0.3> (x)",
                "HardSwish (x)",
                "Mish (x)",
                "Softplus (x)",
                "Softsign (x)",
                "Gelu (x)",
                'Gelu <approximate = "tanh"> (x)',
                "Shrink <lambd = 0.7, bias = 0.2> (x)",
            ],
        ),
        feeds={"x": X}, ios=(15, 17)),
    Case("activations of float16",
        """g (float16[n] x) => (y1, y2, y3, y4, y5, y6) {
            y1 = LeakyRelu (x)
            y2 = Elu <alpha = 0.5> (x)
            y3 = Selu (x)
            y4 = Celu <alpha = 2.5> (x)
            y5 = HardSwish (x)
            y6 = Gelu (x)
        }""",
        feeds={"x": X}, coreml=Emits(cast=0), tol=4e-3),
    Case("activations of float16, old systems",
        graph("float16[n] x", [f"{op} (x)" for op in ("LeakyRelu", "Selu", "HardSwish", "Gelu")]),
        feeds={"x": X}, coreml=Emits(cast=5), tol=4e-3, ios=(15,)),
    Case("a Celu upside down", "g (float[n] x) => (y) { y = Celu <alpha = -1.0> (x) }",
        sizes={"n": 3}, tflite=Refused("a Celu whose alpha is -1.0"),
        coreml=Refused("a Celu whose alpha is -1.0")),
    *(
        Case(f"PRelu of {shape}",
            f"g (float[n, 3, 4, 5] x) => (y) <float[{shape}] slope> {{ y = PRelu (x, slope) }}",
            sizes={"n": 2}, coreml=coreml)
        for shape, coreml in (
            ("3,1,1", Emits("prelu")),
            ("1,3,1,1", Emits("prelu")),
            ("4,5", Emits("mul")),
            ("1", Emits("mul")),
        )
    ),
    Case("PRelu of other ranks",
        """g (float[n, 3, 4] x, float[n, 3] x1) => (y1, y2) <float[3, 1] slope, float[3] slope1> {
            y1 = PRelu (x, slope)
            y2 = PRelu (x1, slope1)
        }""",
        sizes={"n": 2}, coreml=Emits("mul", prelu=0)),
    Case("PRelu of integers and a computed slope", "g (int32[3] x, int32[1] s) => (y) { y = PRelu (x, s) }",
        feeds={"x": [-3, 0, 4], "s": [2]}),
    Case("Dropout",
        """g (float[n, 3] x, float[2, 3] x1) => (y, m, z, k) {
            y, m = Dropout (x)
            z, k = Dropout (x1)
        }""",
        sizes=[{"n": 1}, {"n": 4}]),
    *(
        Case(f"Relu of {dtype}", f"g ({dtype}[3] x) => (y) {{ y = Relu (x) }}", feeds={"x": [-5, 0, 5]})
        for dtype in ("int8", "int32")
    ),
    # Clip
    *(
        Case(f"Clip ({operands}): {limits}", f"g (float[n] x) => (y) <{limits}> {{ y = Clip ({operands}) }}",
            feeds={"x": X[1:-1]}, coreml=Only(*made.split()))
        for operands, limits, made in CLIPS
    ),
    Case("Clip to computed limits", "g (float[n] x, float l, float h) => (y) { y = Clip (x, l, h) }",
        feeds={"x": X, "l": -0.7, "h": 2.0}, tflite=Refused("have to be constant")),
    *(
        Case(f"Clip of {dtype}",
            f"g ({dtype}[n] x) => (y) <{dtype} low = {{{low}}}, {dtype} high = {{{high}}}> {{ y = Clip (x, low, high) }}",
            feeds={"x": [0, 1, 4, 7, 100]})
        for dtype, low, high in (("int64", -3, 9223372036854775807), ("int32", -3, 5), ("uint8", 3, 200))
    ),
    Case("Clip to the least int64",
        "g (int64[n] x) => (y) <int64 low = {-9223372036854775808}, int64 high = {9}> { y = Clip (x, low, high) }",
        feeds={"x": [0, 1, 4, 7, 100]}),
    # Softmax
    Case("Softmax and its like",
        graph(
            "float[n, 3, m] x",
            [
                *(
                    f"{op} <axis = {axis}> (x)"
                    for op in ("Softmax", "LogSoftmax")
                    for axis in (-1, 0, 1)
                ),
                "Hardmax <axis = 1> (x)",
            ],
        ),
        feeds=[{"x": np.random.default_rng(0).standard_normal((2, 3, 4)) * by} for by in (1, 1000)]),
    Case("Hardmax along free axes",
        """g (float[n, 3, m] x) => (y1, y2) {
            y1 = Hardmax <axis = 0> (x)
            y2 = Hardmax <axis = -1> (x)
        }""",
        sizes={"n": 2, "m": 4}),
    Case("Hardmax of equal numbers", "g (float[n, 4] x) => (y) { y = Hardmax (x) }",
        feeds={"x": [[1, 3, 3, 2], [5, 5, 5, 5], [0, 1, 0, 1]]}),
    Case("Softmax of a masked row",
        """g (float16[n, 4] x, float16[n, 4] m) => (y) {
            a = Add (x, m)
            y = Softmax (a)
        }""",
        feeds={"x": np.zeros((2, 4)), "m": np.full((2, 4), -65504.0)}, tol=1e-3),
    # arithmetic
    *(
        Case(f"of {count} operands",
            graph(
                ", ".join(OPERANDS[:count]),
                [f"{op} ({', '.join('abcd'[:count])})" for op in ("Max", "Min", "Sum", "Mean")],
            ),
            sizes=[{"n": 2}, {"n": 5}])
        for count in (1, 2, 4)
    ),
    *(
        Case(f"a constant and what is multiplied by 0: {size}",
            f"""g (float[n, 3, m] x) => (y1, y2) <float[1, {size}, 4] c, float zero = {{0.0}}> {{
                a = Mul (x, zero)
                y1 = Max (a, c)
                y2 = Min (a, c)
            }}""",
            sizes=[{"n": 2, "m": 4}, {"n": 5, "m": 1}])
        for size in (1, 3)
    ),
    Case("a square", "g (float[n] x) => (y) <float two = {2.0}> { y = Pow (x, two) }",
        feeds={"x": [-3.0, 0.5]}, coreml=Only("square")),
    *(
        Case(f"remainders of {dtype}", f"g ({dtype}[n] a, {dtype}[n] b) => (y) {{ y = Mod <fmod = 1> (a, b) }}",
            feeds={
                "a": [-4.3, 7.2, 5.0, 4.3, -7.2, 8.0, 1e4, -1e-5, 3.0],
                "b": [2.1, -3.4, 8.0, -2.1, 3.4, 5.0, 0.3, 1.0, np.inf],
            })
        for dtype in ("float", "float16")
    ),
    Case("divided by nothing", "g (float[n] a, float[n] b) => (y) { y = Div (a, b) }",
        feeds={"a": [1, -1, 0], "b": [0, 0, 0]}, tflite=LIMITED),
    Case("float16 by a large number", "g (float16[n] x) => (y) <float16 divisor> { y = Div (x, divisor) }",
        feeds={"x": [30000, 60000, -44444]}, weights={"divisor": 50000}, tol=1e-3),
    *(
        Case(f"{base} to a power of {exponent}",
            f"g ({base}[n] a, {exponent}[n] b) => (y) {{ y = Pow (a, b) }}",
            feeds={"a": [1, 2, 3, 4, 5], "b": b})
        for base, exponent, b in (
            ("float", "float", [0.5, 2, 3.5, 2, 0]),
            ("float", "int64", [0, 2, 3, 4, 5]),
            ("int32", "int32", [0, 2, 3, 4, 5]),
            ("int64", "float", [0.5, 2, 3.5, 2, 0]),
        )
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
