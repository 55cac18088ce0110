"""ScatterElements and ScatterND."""

import numpy as np
import pytest

from tests.operators.cases import Case, Refused, graph
from tests.operators.running import TARGETS, check

TWICE = [[0, -1, 0], [1, 1, -2]]
REDUCTIONS = ("add", "mul", "max", "min")


# fmt: off
CASES: list[Case] = [
    *(
        Case(f"ScatterElements of {dtype}",
            graph(
                f"{dtype}[2, 4] x, int64[2, 3] i, {dtype}[2, 3] u, "
                f"{dtype}[b, n] z, int64[b, 3] j, {dtype}[b, 3] v",
                [
                    f'ScatterElements <axis = 1, reduction = "{reduction}"> ({operands})'
                    for reduction in REDUCTIONS
                    for operands in ("x, i, u", "z, j, v")
                ],
            ),
            sizes={"b": 2, "n": 4}, feeds={"i": TWICE, "j": TWICE})
        for dtype in ("float", "int64")
    ),
    Case("ScatterElements of other places",
        graph(
            "float[3, 4] x, int64[2, 3] i, float[2, 3] u",
            [
                f'ScatterElements <axis = -1, reduction = "{reduction}"> (x, i, u)'
                for reduction in ("none", "add", "mul", "max", "min")
            ],
        ),
        feeds={"i": [[0, -1, 2], [1, 0, -2]]}),
    Case("ScatterElements of free rows",
        """g (float[n, 4] x, int64[n, 2] i, float[n, 2] u) => (y1, y2) {
            y1 = ScatterElements <axis = 1, reduction = "none"> (x, i, u)
            y2 = ScatterElements <axis = 1, reduction = "add"> (x, i, u)
        }""",
        sizes={"n": 3}, feeds={"i": [[0, -1], [2, 1], [3, 0]]}),
    Case("ScatterElements of fewer rows",
        """g (float[b, n, 3] x, int64[c, m, 3] i, float[c, m, 3] u) => (y1, y2) {
            y1 = ScatterElements <axis = 1, reduction = "none"> (x, i, u)
            y2 = ScatterElements <axis = 1, reduction = "add"> (x, i, u)
        }""",
        sizes=[{"b": 3, "n": 4, "c": 1, "m": 2}, {"b": 1, "n": 4, "c": 1, "m": 2}],
        feeds={"i": [[[0, -1, 2], [1, -2, 3]]]}),
    Case("ScatterElements of constants",
        """g (float[2, 3] updates) => (y1, y2) <float[2, 4] x, int64[2, 3] i, float[2, 3] updates1> {
            y1 = ScatterElements <axis = 1, reduction = "add"> (x, i, updates)
            y2 = ScatterElements <axis = 1, reduction = "add"> (x, i, updates1)
        }""",
        weights={"i": TWICE}),
    *(
        Case(f"ScatterND of {dtype}",
            graph(
                f"{dtype}[4, 3, 2] x, int64[3, 1] i, {dtype}[3, 3, 2] u, int64[3, 1] j",
                [
                    "ScatterND (x, i, u)",
                    *(
                        f'ScatterND <reduction = "{reduction}"> (x, j, u)'
                        for reduction in REDUCTIONS
                    ),
                ],
            ),
            feeds={"i": [[-1], [0], [1]], "j": [[-1], [0], [3]]})
        for dtype in ("float", "int64")
    ),
    Case("ScatterND of free rows",
        graph(
            "float[b, n, 2] x, int64[m, 2] i, float[m, 2] u, int64[m, 2] j",
            [
                *(f'ScatterND <reduction = "{reduction}"> (x, i, u)' for reduction in REDUCTIONS),
                "ScatterND (x, j, u)",
            ],
        ),
        sizes=[{"b": 2, "n": 3, "m": 3}, {"b": 4, "n": 3, "m": 3}],
        feeds={"i": [[0, -1], [-1, 0], [0, 2]], "j": [[0, -1], [-1, 0], [0, 0]]}, ios=(15, 17)),
    Case("ScatterND of booleans",
        """g (bool[4] x, int64[2, 1] i, bool[2] updates, bool[b, 3] x1, bool[2] updates1) => (y1, y2)
            <int64[2, 2] j> {
            y1 = ScatterND (x, i, updates)
            y2 = ScatterND (x1, j, updates1)
        }""",
        sizes={"b": 2}, feeds={"i": [[0], [3]]}, weights={"j": [[0, -1], [-1, 0]]}),
    *(
        Case(f"as many places as are found, {reduction}",
            f"""g (float[n, 3] x) => (y) <float zero = {{0.0}}, float nine = {{9.0}}> {{
                m = Greater (x, zero)
                c = NonZero (m)
                i = Transpose <perm = [1, 0]> (c)
                v = GatherND (x, i)
                w = Mul (v, nine)
                y = ScatterND <reduction = "{reduction}"> (x, i, w)
            }}""",
            feeds=[
                {"x": x * np.abs(np.random.default_rng(0).standard_normal((4, 3)))}
                for x in ([[1], [1], [-1], [-1]], [[-1]] * 4)
            ])
        for reduction in ("none", "add")
    ),
    Case("sums that wrap around",
        'g (int8[4] x, int64[2] i, int8[2] u) => (y) { y = ScatterElements <reduction = "add"> (x, i, u) }',
        feeds={"i": [0, 1]}, coreml=Refused("wrap around")),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
