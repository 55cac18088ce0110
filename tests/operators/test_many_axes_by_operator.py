"""Operators of more axes than Core ML has, on Core ML alone: TFLite has them."""

import numpy as np
import pytest

from tests.operators.cases import Case, Refused, numbers
from tests.operators.running import check

PLACES = np.stack([np.arange(24).reshape(2, 3, 4) % 5, np.arange(24).reshape(2, 3, 4) % -4], -1)

# fmt: off
CASES: list[Case] = [
    Case("many axes in and out",
        """g (float[b, 2, 1, 3, 2, 2] x, float[2, 1, 3, 1] y, float[b, n, 3] z)
            => (y1, y2, y3, y4, bool[b, 2, 1, 3, 2, 2] g)
            <int64[4] axes = {1, 3, 4, 6}, int64[3] shape = {0, 6, 4}> {
            a = Relu (x)
            c = Transpose <perm = [0, 3, 5, 1, 2, 4]> (a)
            y1 = Mul (c, y)
            y2 = Identity (x)
            d = Unsqueeze (z, axes)
            y3 = Identity (d)
            y4 = Reshape (x, shape)
            g = Cast <to = 9> (a)
        }""",
        sizes=[{"b": 1, "n": 3}, {"b": 2, "n": 1}]),
    Case("many axes in alone",
        "g (float[b, 2, 1, 3, 2, 2] x) => (y) <int64[3] axes = {1, 3, 5}> { y = ReduceSum <keepdims = 0> (x, axes) }",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("many axes out alone",
        "g (int64[2, 3] x) => (y) <int64[4] axes = {0, 1, 2, 3}> { y = Unsqueeze (x, axes) }"),
    Case("a volume of free sizes",
        """g (float[b, 6, h, w] x) => (float[?, w, h] y)
            <float[?, ?, ?, ?, ?, ?] v, float[?, ?, ?, ?, ?, ?] e, int64[1] zero = {0},
            int64[1] three = {3}, int64[1] four = {4}, int64[3] shape = {0, 6, -1},
            int64[1] one = {1}, float divisor = {2.5}, int64[1] two = {2}> {
            s = Shape (x)
            n = Slice (s, zero, one)
            p = Slice (s, two, three)
            q = Slice (s, three, four)
            f = Reshape (x, shape)
            t = Transpose <perm = [0, 2, 1]> (f)
            m = MatMul (t, f)
            u = Concat <axis = 0> (n, p, q, one, p, q)
            v = Reshape (m, u)
            d = Div (v, divisor)
            k = Mul (p, q)
            l = Div (k, two)
            z = Concat <axis = 0> (n, two, l, one, p, q)
            e = Reshape (d, z)
            g = Transpose <perm = [0, 2, 1, 3, 5, 4]> (e)
            o = Mul (n, k)
            j = Concat <axis = 0> (o, q, p)
            y = Reshape (g, j)
        }""",
        sizes=[{"b": 2, "h": 4, "w": 5}, {"b": 1, "h": 3, "w": 2}]),
    Case("an einsum of many letters",
        """g (float[b, 3, 20] x) => (y)
            <int64[5] shape = {0, 3, 2, 2, 5}, int64[3] shape1 = {0, 3, 20}> {
            a = Reshape (x, shape)
            e = Einsum <equation = "bqhwc,bkxyc->bqkhwxy"> (a, a)
            s = Softmax <axis = -1> (e)
            c = Einsum <equation = "bqkhwxy,bkxyc->bqhwc"> (s, a)
            y = Reshape (c, shape1)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("functions of elements",
        """g (float[b, 48] x, float[3, 1, 1, 1] slope, float[2, 1, 2, 1, 2] b) => (y)
            <int64[6] shape = {0, 2, 3, 2, 2, 2}, float min = {-1.0}, float max = {1.0},
            float half = {0.5}, int64[2] shape1 = {0, 48}> {
            a = Reshape (x, shape)
            c = Clip (a, min, max)
            d = Abs (c)
            e = PRelu (d, slope)
            f = Greater (e, b)
            h = Where (f, e, half)
            y = Reshape (h, shape1)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("sizes that may be stretched or not",
        """g (float[b, n, 4] x, float[b, m, 4] y) => (z) <int64[6] shape = {0, 0, 1, 2, 2, 1}> {
            a = Reshape (x, shape)
            c = Reshape (y, shape)
            d = Add (a, c)
            z = Flatten (d)
        }""",
        sizes=[{"b": 2, "n": 3, "m": 3}, {"b": 2, "n": 1, "m": 4}, {"b": 1, "n": 3, "m": 1}]),
    Case("repeated where axes alternate",
        """g (float[6, 4] x) => (y)
            <int64[7] shape = {2, 1, 3, 1, 4, 1, 1}, int64[7] shape1 = {1, 2, 1, 3, 1, 2, 2},
            int64[7] repeats = {1, 1, 2, 1, 2, 1, 1}> {
            a = Reshape (x, shape)
            c = Expand (a, shape1)
            d = Tile (c, repeats)
            y = Flatten <axis = 3> (d)
        }"""),
    *(
        Case(f"{op} of axes that alternate",
            f"""g (float[b, 48] x) => (y1, y2)
                <int64[7] shape = {{0, 2, 2, 3, 2, 2, 1}}, int64[3] axes = {{1, 3, 5}},
                int64[2] axes1 = {{-3, 2}}, int64[2] shape1 = {{0, -1}}> {{
                a = Reshape (x, shape)
                y1 = {op} <keepdims = 0> (a, axes)
                c = {op} <keepdims = 1> (a, axes1)
                y2 = Reshape (c, shape1)
            }}""",
            sizes=[{"b": 1}, {"b": 3}])
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceLogSumExp")
    ),
    Case("all reduced",
        """g (float[4, 8] x) => (y) <int64[6] shape = {2, 2, 2, 2, 2, 1}> {
            a = Reshape (x, shape)
            y = ReduceSum <keepdims = 0> (a)
        }"""),
    *(
        Case(f"{op}",
            f"""g (float[4, 8] x) => (y) <int64[6] shape = {{2, 2, 2, 2, 2, 1}}> {{
                a = Reshape (x, shape)
                y = {op} <axis = 2, keepdims = 0> (a)
            }}""")
        for op in ("ArgMax", "ArgMin")
    ),
    Case("the best, sums and parts",
        """g (float[b, 48] x) => (y1, y2)
            <int64[6] shape = {0, 2, 3, 2, 2, 2}, int64[1] k = {2}, int64 axis = {-2},
            int64[2] shape1 = {0, -1}> {
            a = Reshape (x, shape)
            v, i = TopK <axis = 2> (a, k)
            c = CumSum (v, axis)
            d = LogSoftmax <axis = 1> (c)
            p, q = Split <axis = 3, num_outputs = 2> (d)
            s = Concat <axis = 1> (p, q, p)
            y1 = Reshape (s, shape1)
            y2 = Reshape (i, shape1)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("parts and borders",
        """g (float[b, 96] x) => (y)
            <int64[6] shape = {0, 2, 3, 2, 4, 2}, int64[4] starts = {1, 0, 1, 0},
            int64[4] ends = {3, 2, 9, 1}, int64[4] axes = {2, 3, 4, -1},
            int64[4] steps = {1, 1, 2, 1}, int64[12] pads = {0, 1, 1, 0, 2, 0, 0, 0, 1, 0, 1, 0},
            float value = {0.5}, int64[2] pads1 = {1, 2}, int64[1] four = {4},
            int64[2] shape1 = {0, -1}> {
            a = Reshape (x, shape)
            c = Slice (a, starts, ends, axes, steps)
            d = Pad (c, pads, value)
            e = Pad <mode = "edge"> (d, pads1, "", four)
            y = Reshape (e, shape1)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("a normalized tail",
        """g (float[b, 48] x, float[2, 2, 2] scale, float[2, 1, 2] b, float[2] scale1) => (y)
            <int64[6] shape = {0, 2, 3, 2, 2, 2}, int64[2] shape1 = {0, 48}> {
            a = Reshape (x, shape)
            c = LayerNormalization <axis = 3> (a, scale, b)
            d = LayerNormalization (c, scale1)
            y = Reshape (d, shape1)
        }""",
        sizes=[{"b": 1}, {"b": 2}], tol=1e-4),
    Case("a volume normalized in groups",
        """g (float[b, 4, 2, 3, 2] x, float[2] scale, float[2] bias) => (float[b, 4, 2, 3, 2] y) {
            y = GroupNormalization <num_groups = 2> (x, scale, bias)
        }""",
        sizes=[{"b": 1}, {"b": 2}], tol=1e-4),
    Case("normalized instances",
        """g (float[b, 48] x, float[2] scale, float[2] b) => (y)
            <int64[6] shape = {0, 2, 3, 2, 2, 2}, int64[2] shape1 = {0, 48}> {
            a = Reshape (x, shape)
            c = InstanceNormalization (a, scale, b)
            y = Reshape (c, shape1)
        }""",
        sizes=[{"b": 1}, {"b": 2}], tol=1e-4),
    Case("by vectors of indices",
        """g (float[5, 4, 2, 3] x, float[1, 3, 4, 2, 3] updates) => (y)
            <int64[2, 3, 4, 2] i, int64[1, 1] j, float two = {2.0}, int64[2] shape = {2, -1}> {
            a = GatherND (x, i)
            c = Mul (a, two)
            d = ScatterND (c, j, updates)
            y = Reshape (d, shape)
        }""",
        weights={"i": PLACES, "j": [[1]]}),
    Case("elements by indices",
        """g (float[b, 48] x) => (y) <int64[6] shape = {0, 2, 3, 2, 2, 2}, int64[2] shape1 = {0, 48}> {
            a = Reshape (x, shape)
            i = ArgMax <axis = 2> (a)
            e = GatherElements <axis = 2> (a, i)
            s = ScatterElements <axis = 2> (a, i, e)
            h = Trilu (s)
            y = Reshape (h, shape1)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("sizes of it",
        """g (float[b, 48] x) => (y1, y2, y3)
            <int64[6] shape = {0, 2, 3, 2, 2, 2}, int64[2] shape1 = {0, 48}> {
            a = Reshape (x, shape)
            s = Shape (a)
            n = Size (a)
            c = ConstantOfShape (s)
            d = Add (a, c)
            y1 = Reshape (d, shape1)
            y2 = Cast <to = 7> (s)
            y3 = Cast <to = 7> (n)
        }""",
        sizes=[{"b": 1}, {"b": 2}]),
    Case("in a branch",
        """g (float[b, 48] x, bool c) => (float[b, 48] y)
        <int64[6] s = {0,2,3,2,2,2}, int64[2] t = {0,48}> { a = Reshape(x, s)
        y = If (c) <then_branch = t () => (p) { d = Transpose<perm = [0,5,2,3,4,1]>(a) p = Reshape(d, t) },
                    else_branch = e () => (q) { f = Neg(a) q = Reshape(f, t) }> }""",
        sizes={"b": 2}, feeds=[{"c": True}, {"c": False}]),
    # what stays
    Case("free sizes behind the fifth axis of an input",
        "g (float[2, 1, 1, 2, 1, n] x) => (y) { y = Relu (x) }",
        coreml=Refused("more than 5 axes", "--input")),
    Case("what may be stretched or not, along too many",
        """g (float[a, b, c, d, e] x, float[f, g, h, i, j] y) => (z)
            <float[1, 1, 1, 1, 1, 2] s, int64[1] axes = {5}> {
            a = Unsqueeze (x, axes)
            h = Add (a, s)
            k = Unsqueeze (y, axes)
            l = Add (h, k)
            z = Flatten (l)
        }""",
        weights={"s": numbers(1, 1, 1, 1, 1, 2)},
        coreml=Refused("more than 5 axes", "may be 1 or not", "--input")),
    Case("an operator of its own",
        """g (float[2, 16] x) => (y)
            <int64[6] shape = {2, 2, 2, 2, 2, 1}, float[6] scales = {1.0, 1.0, 1.0, 1.0, 2.0, 1.0},
            int64[2] shape1 = {2, -1}> {
            a = Reshape (x, shape)
            c = Resize (a, "", scales)
            y = Reshape (c, shape1)
        }""",
        coreml=Refused("more than 5 axes", "Resize")),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case) -> None:
    check(case, "coreml")
