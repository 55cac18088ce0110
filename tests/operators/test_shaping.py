"""Reshape, Flatten, Squeeze, Expand, Tile, Shape, Transpose: free and computed, of many axes, empty."""

import numpy as np
import pytest

from tests.operators.cases import Case, Emits, Refused, graph
from tests.operators.running import TARGETS, check

# fmt: off
CASES: list[Case] = [
    # Reshape
    Case("a reshape to a zero",
        "g (float[n, 3] x) => (y) <int64[2] shape = {0, 3}> { y = Reshape <allowzero = 1> (x, shape) }",
        sizes={"n": 0}, coreml=Refused("without elements")),
    Case("a reshape to a zero between",
        """g (float[n, 3] x) => (y) <int64[2] shape = {0, 3}, int64[1] axes = {0}> {
            r = Reshape <allowzero = 1> (x, shape)
            y = ReduceSum <keepdims = 0> (r, axes)
        }""",
        sizes={"n": 0}, coreml=Refused("without elements")),
    *(
        Case(f"reshapes of a free batch: {shape}",
            f"""g (float[b, 3, 4, 2] x) => (y) <int64[{len(shape)}] shape = {{{str(shape)[1:-1]}}}> {{
                y = Reshape (x, shape)
            }}""",
            sizes=[{"b": 2}, {"b": 5}])
        for shape in ([0, 0, -1], [0, -1], [-1, 0, 2, 4], [0, 3, 0, 2], [-1], [1, -1, 4, 2], [1, 1, -1, 4, 2])
    ),
    Case("two free axes stay in place",
        """g (float[b, n, 6] x) => (y) <int64[4] shape = {0, 0, 2, 3}, int64[3] shape1 = {0, -1, 6}> {
            a = Reshape (x, shape)
            t = Transpose <perm = [0, 2, 1, 3]> (a)
            u = Transpose <perm = [0, 2, 1, 3]> (t)
            v = Abs (u)
            y = Reshape (v, shape1)
        }""",
        sizes=[{"b": 2, "n": 5}, {"b": 1, "n": 3}]),
    Case("two free axes to as many",
        """g (float[b, 1, 1, n] x) => (y1, y2, y3)
            <int64[4] shape = {0, 1, -1, 1}, int64[4] shape1 = {-1, 0, 0, 1},
            int64[4] shape2 = {0, 0, 1, -1}> {
            y1 = Reshape (x, shape)
            y2 = Reshape (x, shape1)
            y3 = Reshape (x, shape2)
        }""",
        sizes=[{"b": 2, "n": 5}, {"b": 1, "n": 3}], ios=(15, 17)),
    Case("0 where ranks differ",
        "g (float[b, n, 2, 3] x) => (y) <int64[3] shape = {0, 0, 6}> { y = Reshape (x, shape) }",
        sizes=[{"b": 4, "n": 5}, {"b": 3, "n": 1}], ios=(15, 17)),
    Case("to computed sizes",
        """g (float[b, n, 8] x) => (y) <int64[1] one = {1}, int64[1] minus_one = {-1}> {
            s = Shape (x)
            m = Gather (s, one)
            t = Concat <axis = 0> (m, minus_one)
            y = Reshape (x, t)
        }""",
        sizes=[{"b": 2, "n": 5}, {"b": 3, "n": 4}]),
    Case("to computed sizes and a 0",
        """g (float[b, n, m, 2] x) => (y)
            <int64[1] zero = {0}, int64[1] minus_one = {-1}> {
            s = Shape (x)
            a = Gather (s, zero)
            t = Concat <axis = 0> (a, zero, minus_one)
            y = Reshape (x, t)
        }""",
        sizes=[{"b": 2, "n": 5, "m": 3}, {"b": 3, "n": 4, "m": 1}], ios=(15, 17)),
    Case("to sizes fed, 0 among them",
        "g (float[4, 2, c] x, int64[2] s) => (float[?, ?] y) { y = Reshape (x, s) }",
        sizes={"c": 6}, feeds=[{"s": s} for s in ([0, 12], [-1, 3], [8, -1], [0, -1])]),
    Case("to sizes fed, as many axes",
        "g (float[a, b] x, int64[2] s) => (float[?, ?] y) { y = Reshape (x, s) }",
        sizes={"a": 4, "b": 6}, feeds=[{"s": s} for s in ([0, 6], [12, -1], [-1, 0])]),
    Case("Flatten",
        graph("float[b, n, 4] x", [f"Flatten <axis = {axis}> (x)" for axis in (0, 1, 2, 3, -1, -2)]),
        sizes=[{"b": 2, "n": 3}, {"b": 1, "n": 1}]),
    Case("Flatten of free axes alone",
        graph("float[b, n, h, w] x", [f"Flatten <axis = {axis}> (x)" for axis in (0, 1, 2, 3, -1)]),
        sizes=[{"b": 2, "n": 3, "h": 4, "w": 2}, {"b": 1, "n": 1, "h": 1, "w": 1}]),
    Case("Squeeze of a free axis",
        "g (float[b, n, 4] x) => (y) <int64[1] axes = {0}> { y = Squeeze (x, axes) }",
        sizes={"b": 1, "n": 3}),
    Case("Squeeze of all free axes", "g (float[b, 4] x) => (float[?] y) { y = Squeeze (x) }",
        sizes={"b": 1}, coreml=Refused("depend on the input's sizes")),
    Case("Unsqueeze and scalars",
        """g (float[3] x) => (u, z) <int64 two = {2}, int64[2] axes = {0, 1}> {
            s = Gather <axis = 0> (x, two)
            y = Unsqueeze (s, axes)
            t = Squeeze (y)
            u = Abs (y)
            z = Identity (t)
        }"""),
    # Expand, Tile, Shape, Transpose
    Case("a mask of a batch",
        """g (float[b, 2, n] x, float[1, 1, n] x1) => (y) {
            s = Shape (x)
            y = Expand (x1, s)
        }""",
        sizes=[{"b": 2, "n": 3}, {"b": 1, "n": 4}], ios=(15, 18)),
    Case("where either side is one", "g (float[a, b] x, int64[2] s) => (float[?, ?] y) { y = Expand (x, s) }",
        feeds=[
            {"x": np.ones((3, 1)), "s": [1, 4]},
            {"x": [[1, 2]], "s": [5, 1]},
            {"x": [[-0.0, np.nan]], "s": [2, 2]},
        ]),
    *(
        Case(f"expands of {dtype}",
            f"g ({dtype}[a, b] x, int64[2] s) => ({dtype}[?, ?] y) {{ y = Expand (x, s) }}",
            sizes={"a": 3, "b": 1}, feeds={"s": [1, 4]})
        for dtype in ("bool", "int64", "float16")
    ),
    Case("expanded to a constant",
        "g (float[b, 1, 3] x) => (y) <int64[4] shape = {2, 1, 4, 1}> { y = Expand (x, shape) }",
        sizes=[{"b": 2}, {"b": 1}]),
    Case("tiled", "g (int64[a, 2] x, int64[2] r) => (int64[?, ?] y) { y = Tile (x, r) }",
        feeds=[{"x": np.arange(6).reshape(3, 2), "r": [2, 1]}, {"x": [[0, 1]], "r": [1, 2]}]),
    Case("Shape and Size",
        """g (float[b, 3, n] x) => (y1, y2, y3, y4, y5) {
            y1 = Shape (x)
            y2 = Shape <start = -1> (x)
            y3 = Shape <start = 0, end = 2> (x)
            y4 = Shape <start = 1, end = -1> (x)
            y5 = Size (x)
        }""",
        sizes=[{"b": 2, "n": 5}, {"b": 1, "n": 1}]),
    Case("Transpose without axes", "g (bool[b, 3, 2] x) => (y) { y = Transpose (x) }", sizes={"b": 4}),
    Case("six axes", "g (float[2, 3] x) => (y) <int64[4] axes = {0, 1, 2, 3}> { y = Unsqueeze (x, axes) }"),
    # more than five axes in between
    Case("windows there and back",
        """g (float[b, 8, 12, 6] x) => (y, z)
            <int64[6] shape = {-1, 2, 4, 3, 4, 6}, int64[3] shape1 = {-1, 16, 6},
            int64[6] shape2 = {-1, 2, 3, 4, 4, 6}, int64[4] shape3 = {-1, 8, 12, 6}> {
            a = Reshape (x, shape)
            c = Transpose <perm = [0, 1, 3, 2, 4, 5]> (a)
            w = Reshape (c, shape1)
            y = Identity (w)
            d = Reshape (w, shape2)
            e = Transpose <perm = [0, 1, 3, 2, 4, 5]> (d)
            z = Reshape (e, shape3)
        }""",
        sizes=[{"b": 1}, {"b": 3}], coreml=Emits(reshape=4, transpose=2)),
    Case("patches of free sizes",
        """g (float[b, 3, h, w] x) => (y)
            <float[?, ?, ?, ?, ?, ?] a, int64[1] zero = {0}, int64[1] two = {2}, int64[1] three = {3},
            int64[3] shape = {0, -1, 12}> {
            s = Shape (x)
            n = Gather (s, zero)
            p = Gather (s, two)
            q = Gather (s, three)
            r = Div (p, two)
            c = Div (q, two)
            t = Concat <axis = 0> (n, three, r, two, c, two)
            a = Reshape (x, t)
            e = Transpose <perm = [0, 2, 4, 3, 5, 1]> (a)
            d = Identity (e)
            y = Reshape (d, shape)
        }""",
        sizes=[{"b": 2, "h": 4, "w": 6}, {"b": 1, "h": 2, "w": 8}]),
    Case("a shape that may be anything",
        """g (float[b, 3, h, w] x, int64[6] s) => (y)
            <float[?, ?, ?, ?, ?, ?] a, int64[1] shape = {-1}> {
            a = Reshape (x, s)
            y = Reshape (a, shape)
        }""",
        sizes={"b": 1, "h": 2, "w": 2}, feeds={"s": [1, 3, 2, 2, 1, 1]}, coreml=Refused("nothing is known")),
    Case("pixels repeated",
        """g (float[b, 2, h, 5] x) => (y1, y2)
            <int64[6] shape = {0, 0, 0, 1, 5, 1}, int64[6] shape1 = {1, 1, 1, 2, 1, 3},
            int64[4] shape2 = {0, 0, -1, 15}, int64[2] axes = {3, 5},
            int64[6] repeats = {1, 2, 1, 2, 1, 1}> {
            c = Reshape (x, shape)
            d = Expand (c, shape1)
            y1 = Reshape (d, shape2)
            e = Unsqueeze (x, axes)
            f = Tile (e, repeats)
            y2 = Flatten <axis = 1> (f)
        }""",
        sizes=[{"b": 2, "h": 3}, {"b": 1, "h": 1}]),
    Case("axes added and taken away",
        """g (int64[n, 2, 3, 4] x) => (y1, y2) <int64[3] axes = {0, 3, 6}, int64[3] axes1 = {1, 3, 5}> {
            c = Unsqueeze (x, axes)
            d = Transpose <perm = [3, 4, 1, 0, 2, 5, 6]> (c)
            e = Transpose <perm = [1, 0, 2, 3, 4, 6, 5]> (d)
            f = Squeeze (e, axes1)
            y1 = Transpose <perm = [0, 1, 2, 3]> (f)
            y2 = Flatten <axis = 4> (d)
        }""",
        sizes=[{"n": 1}, {"n": 2}]),
    Case("anything else on six axes",
        """g (float[b, 8, 8, 6] x) => (y)
            <int64[6] shape = {-1, 2, 4, 2, 4, 6}, int64[3] shape1 = {-1, 16, 6}> {
            a = Reshape (x, shape)
            c = Relu (a)
            y = Reshape (c, shape1)
        }""",
        sizes={"b": 1}),
    # parts without elements
    Case("a rest that is nothing",
        """g (float[n, 6] x) => (y) <int64[2] parts = {6, 0}> {
            a, rest = Split <axis = -1> (x, parts)
            b = Neg (a)
            y = Concat <axis = -1> (b, rest)
        }""",
        sizes={"n": 3}),
    Case("several parts that are nothing",
        """g (float[n, 6] x) => (u, z)
            <int64[4] parts = {4, 0, 2, 0}, int64[1] six = {6}, int64[1] nine = {9},
            int64[1] axes = {1}> {
            a, b, c, d = Split <axis = 1> (x, parts)
            none = Slice (x, six, nine, axes)
            less = Neg (none)
            y = Concat <axis = 1> (b, a, less)
            u = Abs (y)
            z = Concat <axis = 1> (c, d, y)
        }""",
        sizes={"n": 3}),
    Case("nothing that is left",
        "g (float[n, 6] x) => (y, z) <int64[2] parts = {6, 0}> { y, z = Split <axis = 1> (x, parts) }",
        sizes={"n": 3}, coreml=Refused("without elements")),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
