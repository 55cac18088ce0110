"""Channels last inside and the interface as it was; what a runtime writes over its input."""

import pytest

from tests.operators.cases import Case, Emits
from tests.operators.running import TARGETS, check

# fmt: off
CASES: list[Case] = [
    Case("one transpose in and one out",
        """g (float[b, 3, 8, 8] x) => (y) <float[4, 3, 3, 3] w, float[4] b, float[5, 4, 1, 1] w1> {
            a = Conv <pads = [1, 1, 1, 1]> (x, w, b)
            r = Relu (a)
            y = Conv (r, w1)
        }""",
        sizes=[{"b": 1}, {"b": 3}], tflite=Emits(TRANSPOSE=2, CONV_2D=2, RELU=0)),
    Case("channels that are last already",
        """g (float[1, 8, 8, 3] x) => (y) <float[4, 3, 3, 3] w> {
            a = Transpose <perm = [0, 3, 1, 2]> (x)
            b = Conv (a, w)
            y = Transpose <perm = [0, 2, 3, 1]> (b)
        }""",
        tflite=Emits(TRANSPOSE=0, CONV_2D=1)),
    Case("a residual block stays inside",
        """g (float[1, 4, 8, 8] x) => (y) <float[4, 4, 3, 3] w, float[4, 1, 1] b1> {
            a = Conv <pads = [1, 1, 1, 1]> (x, w)
            b = Mul (a, b1)
            c = Add (b, x)
            d = GlobalAveragePool (c)
            y = Flatten (d)
        }""",
        tflite=Emits(TRANSPOSE=1)),
    Case("an image of one channel", "g (float[1, 1, 8, 8] x) => (y) <float[1, 1, 3, 3] w> { y = Conv (x, w) }",
        tflite=Emits(TRANSPOSE=0)),
    Case("nothing is copied where nothing reads later",
        """g (float[1, 3, 8, 8] x) => (y) <float[3, 1, 1] w, int64[3] shape = {1, 3, 64}> {
            a = Mul (x, w)
            b = Reshape (a, shape)
            y = Softmax <axis = 2> (b)
        }""",
        tflite=Emits(TRANSPOSE=0)),
    *(
        Case(f"reshapes that broadcast stay: {size}",
            f"""g (float[{size}] x) => (y) <int64[1] zero = {{0}}, int64[1] one = {{1}}> {{
                row = Unsqueeze (x, zero)
                column = Unsqueeze (x, one)
                y = Sub (row, column)
            }}""",
            sizes={"n": 6})
        for size in ("6", "n")
    ),
    # LiteRT writes over inputs: a is in the memory of c, b is a, and nothing may be written over it.
    *(
        Case(f"written over, a {name}, batch {batch}",
            f"""g (float[{batch}, 3, 8, 8] x) => (y, z)
                <float[3, 3, 1, 1] w, float[3, 1, 1] m, int64[3] shape = {{0, 3, 64}}, float[1] d,
                float[9, 1, 1] v> {{
                c = Conv (x, w)
                a = Mul (c, m)
                b = Reshape (a, shape)
                {node}
                z = Conv <group = 3> (b, v)
            }}""",
            sizes={"n": 1}, tol=1e-4)
        for name, node in (
            ("softmax", "y = Softmax <axis = 1> (b)"),
            ("product", "y = Mul (b, d)"),
            ("difference", "e = Sigmoid (d) y = Sub (b, e)"),
        )
        for batch in "1n"
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
