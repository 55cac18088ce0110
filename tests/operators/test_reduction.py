"""Reductions and CumSum: axes, integers, free sizes."""

import pytest

from tests.operators.cases import Case, Only, Refused, graph
from tests.operators.running import TARGETS, check

OPS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
SIZES = [{"n": 2, "m": 4}, {"n": 3, "m": 1}]
ROWS = [[-7, 2, 1], [5, 5, 1], [-1, -1, 0]]

# fmt: off
CASES: list[Case] = [
    Case("along an axis, kept",
        graph("float[n, m, 3] x", [f"Reduce{op} (x, axes)" for op in OPS], "int64[1] axes = {-1}"),
        sizes=SIZES, ranges={"x": (0.1, 3)}),
    Case("along two axes",
        graph(
            "float[n, m, 3] x",
            [f"Reduce{op} <keepdims = 0> (x, axes)" for op in OPS],
            "int64[2] axes = {0, 2}",
        ),
        sizes=SIZES, ranges={"x": (0.1, 3)}),
    Case("along an axis",
        graph("float[n, m, 3] x", [f"Reduce{op} <keepdims = 0> (x, axes)" for op in OPS], "int64[1] axes = {1}"),
        sizes=SIZES, ranges={"x": (0.1, 3)}),
    *(
        Case(f"along all, keepdims={keepdims}",
            graph("float[n, m, 3] x", [f"Reduce{op} <keepdims = {keepdims}> (x)" for op in OPS]),
            sizes=SIZES, ranges={"x": (0.1, 3)})
        for keepdims in (0, 1)
    ),
    Case("along none",
        graph(
            "float[n, 3] x",
            [
                f"Reduce{op} <noop_with_empty_axes = 1> (x)"
                for op in ("LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")
            ],
        ),
        sizes={"n": 2}),
    Case("of a number", graph("float x", [f"Reduce{op} (x)" for op in OPS]), feeds={"x": 2.5}),
    Case("norms of int32",
        "g (int32[n, m] x) => (y) <int64[1] axes = {1}> { y = ReduceL2 <keepdims = 0> (x, axes) }",
        feeds={"x": ROWS}),
    Case("of int32",
        graph(
            "int32[n, m] x",
            [
                f"Reduce{op} <keepdims = 0> (x, axes)"
                for op in ("L1", "Max", "Min", "Prod", "Sum", "SumSquare")
            ],
            "int64[1] axes = {1}",
        ),
        feeds={"x": ROWS}),
    Case("means of int32",
        """g (int32[n, m] x) => (y1, y2) <int64[1] axes = {1}> {
            y1 = ReduceMean <keepdims = 0> (x)
            y2 = ReduceMean <keepdims = 0> (x, axes)
        }""",
        feeds={"x": ROWS}, tflite=Refused("MEAN doesn't take int32")),
    Case("of truth values",
        """g (bool[n, 2] x) => (y1, y2) <int64[1] axes = {1}> {
            y1 = ReduceMax (x, axes)
            y2 = ReduceMin (x, axes)
        }""",
        feeds={"x": [[1, 1], [1, 0], [0, 0]]}),
    Case("along computed axes", "g (float[n, 3] x, int64[1] a) => (float[?, ?] y) { y = ReduceSum (x, a) }",
        sizes={"n": 2}, feeds={"a": [1]}, tflite=Refused("have to be constant"),
        coreml=Refused("have to be constant")),
    *(
        Case(f"CumSum: {axis}",
            graph(
                "float[n, m, 3] x",
                [
                    f"CumSum <exclusive = {exclusive}, reverse = {reverse}> (x, axis)"
                    for exclusive in (0, 1)
                    for reverse in (0, 1)
                ],
                f"int64 axis = {{{axis}}}",
            ),
            sizes=SIZES)
        for axis in (0, 1, -1)
    ),
    Case("CumSum of int64", "g (int64[n] x) => (y) <int64 axis = {0}> { y = CumSum (x, axis) }",
        feeds={"x": [5, -7, 100]}, coreml=Only("cumsum")),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
