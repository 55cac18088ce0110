"""ArgMax, ArgMin and TopK."""

import numpy as np
import pytest

from tests.operators.cases import Case, Fails, Only, Refused, graph
from tests.operators.running import TARGETS, check

INTEGERS = np.random.default_rng(3).integers(0, 3, (2, 6, 3))


# fmt: off
CASES: list[Case] = [
    *(
        Case(f"places of the largest {dtype}",
            graph(
                f"{dtype}[4, 5, 3] x",
                [
                    f"Arg{op} <axis = {axis}, select_last_index = {last}, keepdims = {keepdims}> (x)"
                    for op in ("Max", "Min")
                    for axis in (0, 1, -1)
                    for last in (0, 1)
                    for keepdims in (0, 1)
                ],
            ),
            ranges={"x": (0, 3)})
        for dtype in ("float", "int32", "int64", "int8", "uint8")
    ),
    *(
        Case(f"places of the largest {dtype}, free",
            graph(
                f"{dtype}[n, m, 3] x",
                [
                    *(
                        f"Arg{op} <axis = {axis}, keepdims = {keepdims}> (x)"
                        for op in ("Max", "Min")
                        for axis in (0, 1, -1)
                        for keepdims in (0, 1)
                    ),
                    "ArgMax <axis = -1, select_last_index = 1> (x)",
                    "ArgMin <axis = -1, select_last_index = 1> (x)",
                ],
            ),
            sizes=[{"n": 4, "m": 5}, {"n": 1, "m": 2}], ranges={"x": (0, 3)})
        for dtype in ("float", "int32")
    ),
    Case("the last of the largest along a free axis",
        graph(
            "float[n, m, 3] x",
            [
                f"Arg{op} <axis = {axis}, select_last_index = 1, keepdims = {keepdims}> (x)"
                for op in ("Max", "Min")
                for axis in (0, 1)
                for keepdims in (0, 1)
            ],
        ),
        sizes=[{"n": 4, "m": 5}, {"n": 1, "m": 2}], ranges={"x": (0, 3)}),
    Case("places of large int64",
        graph(
            "int64[n, 5] x",
            [
                f"Arg{op} <axis = 1, select_last_index = {last}> (x)"
                for op in ("Max", "Min")
                for last in (0, 1)
            ],
        ),
        feeds={"x": np.asarray([[1, 9, 9, 2, 1], [7, 0, 3, 7, 0]]) + 2**40},
        coreml=Fails("of more than 32 bits")),
    *(
        Case(f"TopK, axis {axis}, largest {largest}",
            f"""g (float[n, 5, 4] x) => (v, i) <int64[1] k = {{2}}> {{
                v, i = TopK <axis = {axis}, largest = {largest}> (x, k)
            }}""",
            sizes=[{"n": 2}, {"n": 3}], ios=(15, 17))
        for axis in (0, 1, -1)
        for largest in (0, 1)
    ),
    *(
        Case(f"TopK of equal {dtype}",
            f"""g ({dtype}[n, 6, 3] x) => (y, i, z, j) <int64[1] k = {{4}}> {{
                y, i = TopK <axis = 1> (x, k)
                z, j = TopK <axis = 1, largest = 0> (x, k)
            }}""",
            feeds={"x": INTEGERS})
        for dtype in ("float", "int64", "int32", "uint8")
    ),
    *(
        Case(f"TopK of a fed number, axis {axis}",
            f"g (float[n, 5] x, int64[1] k) => (v, i) {{ v, i = TopK <axis = {axis}, largest = 0> (x, k) }}",
            sizes={"n": 4}, feeds=[{"k": [1]}, {"k": [3]}])
        for axis in (0, 1)
    ),
    Case("TopK of a number that follows from sizes",
        """g (float[n, 5] x) => (v, i, w, j)
            <int64[1] two = {2}, int64[1] zero = {0}, int64[1] one = {1}> {
            s = Shape (x)
            h = Div (s, two)
            k = Slice (h, zero, one)
            v, i = TopK <axis = 0> (x, k)
            w, j = TopK <axis = 0, largest = 0> (x, k)
        }""",
        sizes=[{"n": 4}, {"n": 7}]),
    Case("TopK of nothing", "g (float[n, 5] x) => (v, i) <int64[1] k = {0}> { v, i = TopK (x, k) }",
        sizes={"n": 2}, coreml=Refused("without elements")),
    Case("TopK, values alone", "g (float[n, 5] x) => (v) <int64[1] k = {2}> { v, i = TopK (x, k) }",
        sizes={"n": 2}, coreml=Only("topk")),
    Case("TopK of the least int64",
        "g (int64[4] x) => (v, i) <int64[1] k = {3}> { v, i = TopK <axis = 0, largest = 1> (x, k) }",
        feeds={"x": [-(2**63), 3, 2**40, -5]}, coreml=Fails("of more than 32 bits")),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
