"""Comparisons, truth values, Where, IsNaN and IsInf."""

import pytest

from tests.operators.cases import Case, Only, graph
from tests.operators.running import TARGETS, check

INF, NAN = float("inf"), float("nan")
COMPARED = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
WHERE = [
    # sizes of the condition and of both choices
    ("[a, 3]", "[a, 3]", "[a, 3]"),
    ("[a, 3]", "[3]", "[1]"),
    ("[a, 3]", "", ""),
    ("[a, 1]", "[1, 3]", "[3]"),
    ("[b, a, 3]", "[a, 1]", "[3]"),
    ("[1]", "[a, 3]", "[a, 1]"),
    ("[a, 3]", "[1]", "[a, 1]"),
]

# fmt: off
CASES: list[Case] = [
    *(
        Case(f"compared: {dtype}",
            graph(f"{dtype}[n, 3] a, {dtype}[4, 1, 3] b", [f"{op} (a, b)" for op in COMPARED]),
            sizes=[{"n": 2}, {"n": 5}], ranges={"a": (0, 3), "b": (0, 3)})
        for dtype in ("float", "int32", "int64", "uint8")
    ),
    Case("compared: equal floats", graph("float[n] a, float[n] b", [f"{op} (a, b)" for op in COMPARED]),
        feeds={"a": [1, 2, 2], "b": [1, 1, 2]}),
    Case("compared: no numbers",
        graph("float[n] a, float[n] b", [*(f"{op} (a, b)" for op in COMPARED), "IsNaN (a)"]),
        feeds={"a": [NAN, NAN, 1.0, 0.0, INF], "b": [NAN, 1.0, NAN, -0.0, INF]}),
    Case("all pairs of truth values",
        """g (bool[n] x, bool[n] y) => (y1, y2, y3, y4) {
            a = And (x, y)
            b = Or (x, y)
            c = Xor (x, y)
            d = Equal (x, y)
            y1 = Not (a)
            y2 = Not (b)
            y3 = Not (c)
            y4 = Not (d)
        }""",
        feeds={"x": [1, 1, 0, 0], "y": [1, 0, 1, 0]}),
    *(
        Case(f"infinite {dtype}",
            graph(
                f"{dtype}[n] x",
                [
                    f"IsInf <detect_positive = {positive}, detect_negative = {negative}> (x)"
                    for positive in (0, 1)
                    for negative in (0, 1)
                ],
            ),
            feeds={"x": [INF, -INF, NAN, 6e4, -6e4, 0]})
        for dtype in ("float", "float16")
    ),
    *(
        Case(f"Where of {dtype}: {c}, {x}, {y}",
            f"g (bool{c} c, {dtype}{x} x, {dtype}{y} y) => (z) {{ z = Where (c, x, y) }}",
            sizes={"a": 2, "b": 4})
        for dtype in ("float", "bool", "int64")
        for free in WHERE
        for c, x, y in (free, [sizes.replace("a", "2").replace("b", "4") for sizes in free])
    ),
    Case("Where keeps every number", "g (bool[n, 4] c, float[4] a, float b) => (y) { y = Where (c, a, b) }",
        feeds={"c": [[1] * 4, [0] * 4], "a": [INF, 0.0, NAN, -INF], "b": INF}),
    Case("Where of many axes",
        "g (bool[2, 1, 3, 1, 1, 2] condition, float[n, 1, 2, 1, 1] x, float y) => (z) { z = Where (condition, x, y) }",
        sizes={"n": 3}),
    Case("masked scores",
        "g (bool[n, 1, s, s] m, float[n, 4, s, s] x) => (y) <float least = {-1e9}> { y = Where (m, x, least) }",
        sizes={"n": 2, "s": 3}, coreml=Only("cast", "select")),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
