"""Gather and its like, OneHot, NonZero, Compress, ReverseSequence, Trilu, Range, EyeLike, Unique."""

import numpy as np
import pytest

from tests.operators.cases import Case, Emits, Refused
from tests.operators.running import TARGETS, check

SLICES = np.random.default_rng(3).integers(0, 2, (3, 4, 2))


# fmt: off
CASES: list[Case] = [
    # Gather
    Case("Gather",
        """g (float[b, n, 4] x, int64[2, 2] i) => (y1, y2, y3) {
            y1 = Gather <axis = 0> (x, i)
            y2 = Gather <axis = 1> (x, i)
            y3 = Gather <axis = -1> (x, i)
        }""",
        sizes=[{"b": 3, "n": 5}, {"b": 3, "n": 3}], feeds={"i": [[0, -1], [-3, 2]]}, ios=(15, 16, 17, 18)),
    Case("Gather of constant indices",
        """g (int64[b, n] x, bool[3, b] x1) => (y1, y2, y3)
            <int64[2] indices = {-1, 0}, int64 indices1 = {-2}> {
            t = Gather <axis = 1> (x, indices)
            y1 = Transpose (t)
            y2 = Gather <axis = 1> (x, indices1)
            y3 = Gather (x1, indices)
        }""",
        sizes={"b": 3, "n": 4}),
    Case("Gather of one index", "g (float[b, 4] x, int64 i) => (y) { y = Gather (x, i) }",
        sizes={"b": 3}, feeds=[{"i": i} for i in (-3, 0, 2)]),
    Case("Gather of int8 keeps the scale",
        """g (float[n, 4] x) => (y)
            <float scale = {0.02}, int8 zero = {3}, int64[2] indices = {3, -4}> {
            a = QuantizeLinear (x, scale, zero)
            b = DequantizeLinear (a, scale, zero)
            c = Gather <axis = 1> (b, indices)
            d = QuantizeLinear (c, scale, zero)
            y = DequantizeLinear (d, scale, zero)
        }""",
        sizes={"n": 3}),
    Case("Gather of counted places",
        """g (float[b, n] x) => (y) <int64 one = {1}, int64 start = {0}, int64 delta = {2}> {
            s = Shape (x)
            m = Gather (s, one)
            r = Range (start, m, delta)
            y = Gather <axis = 1> (x, r)
        }""",
        sizes=[{"b": 2, "n": 5}, {"b": 1, "n": 4}], tflite=Emits(SELECT_V2=0)),
    *(
        Case(f"GatherElements, axis {axis}, batch {batch}",
            f"""g (float[{batch}, 3, 4] x, int64[{batch}, 2, 3] i) => (y) {{
                y = GatherElements <axis = {axis}> (x, i)
            }}""",
            sizes={"n": 2}, ranges={"i": (-2, 2)})
        for axis in (0, 1, -1)
        for batch in "2n"
    ),
    Case("GatherElements of fewer",
        """g (float[b, 4, n] x, int64[c, 2, m] i) => (y1, y2, y3) {
            y1 = GatherElements <axis = 0> (x, i)
            y2 = GatherElements <axis = 1> (x, i)
            y3 = GatherElements <axis = -1> (x, i)
        }""",
        sizes=[{"b": 3, "n": 2}, {"b": 2, "n": 5}], feeds={"i": [[[-1, 0], [1, -2]]]}),
    Case("GatherElements of booleans",
        "g (bool[2, 3] x, int32[2, 3] i) => (y) { y = GatherElements <axis = 1> (x, i) }",
        feeds={"i": [[0, -1, 1], [2, 2, -3]]}),
    *(
        Case(f"GatherND, {batch_dims} axes of batches, batch {batch}",
            f"""g (float[{batch}, 3, 4, 5] x, int64[{batch}, 3, 1] i) => (y) {{
                y = GatherND <batch_dims = {batch_dims}> (x, i)
            }}""",
            sizes={"n": 2}, ranges={"i": (-2, 2)})
        for batch_dims in (0, 1, 2)
        for batch in "2n"
    ),
    Case("GatherND of batches",
        """g (float[b, n, 3, 4] x, int64[b, n, 2] i) => (y1, y2, y3) {
            y1 = GatherND <batch_dims = 0> (x, i)
            y2 = GatherND <batch_dims = 1> (x, i)
            y3 = GatherND <batch_dims = 2> (x, i)
        }""",
        sizes={"b": 2, "n": 2}, feeds={"i": [[[0, -1], [1, 0]], [[-2, 1], [-1, -1]]]}, ios=(15, 16, 17)),
    Case("GatherND of one free batch",
        "g (bool[b, n] x, int64[b, 1] indices) => (y) { y = GatherND <batch_dims = 1> (x, indices) }",
        sizes=[{"b": 2, "n": 3}, {"b": 3, "n": 4}], ranges={"indices": (-3, 3)}, ios=(15, 17)),
    Case("GatherND of constant indices", "g (float[2, 3, 4] x) => (y) <int64[2, 2] i> { y = GatherND (x, i) }",
        weights={"i": [[0, -1], [-2, 1]]}, ios=(15, 17)),
    Case("GatherND of unknown depth",
        "g (float[b, n] x, int64[m, k] i) => (float[?] y) { y = GatherND (x, i) }",
        sizes={"b": 2, "n": 3}, feeds={"i": [[0, 1]]}, tflite=Refused("of unknown length"),
        coreml=Refused("unknown length")),
    *(
        Case(f"indices of {op} counted from the start, iOS{version}",
            f"g (float[b, n] x, int64[m, 1] i) => (y) {{ y = {op} (x, i) }}",
            sizes={"b": 2, "n": 3, "m": 2}, ranges={"i": (0, 2)},
            coreml=Emits(select=0 if op == "Gather" and version < 17 else 1), ios=(version,))
        for op in ("Gather", "GatherND", "GatherElements")
        for version in (15, 16, 17, 18)
    ),
    *(
        Case(f"indices of {op} counted from the start",
            f"g (float[b, n] x, int64[m, 1] i, float[m, {last}] u) => (y) {{ y = {op} (x, i, u) }}",
            sizes={"b": 2, "n": 3, "m": 2}, feeds={"i": [[0], [1]]}, coreml=Emits(select=1))
        for op, last in (("ScatterElements", 1), ("ScatterND", "n"))
    ),
    # OneHot, NonZero, Compress, ReverseSequence, Trilu, Range, ConstantOfShape, EyeLike, Unique
    *(
        Case(f"OneHot of {dtype}",
            f"""g (int64[b, 2] i, {dtype}[2] v) => (y1, y2, y3) <int64 depth = {{4}}> {{
                y1 = OneHot <axis = 0> (i, depth, v)
                y2 = OneHot <axis = 1> (i, depth, v)
                y3 = OneHot <axis = -1> (i, depth, v)
            }}""",
            feeds={"i": [[0, -1], [-4, 3], [4, -5]], "v": [2, 5]})
        for dtype in ("float", "int64")
    ),
    Case("OneHot of a fed depth",
        "g (float[b] i, float[1] d) => (float[b, ?] y) <float[2] values = {0, 1}> { y = OneHot (i, d, values) }",
        feeds=[{"i": [1, -2, 0], "d": [d]} for d in (3, 5)]),
    Case("NonZero", "g (float[b, 4] x) => (y) { y = NonZero (x) }",
        feeds=[{"x": np.eye(b, 4)} for b in (2, 3)]),
    *(
        Case(f"Compress of {dtype}",
            f"""g ({dtype}[n, 4] x, bool[3] c) => (y1, y2, y3) {{
                y1 = Compress (x, c)
                y2 = Compress <axis = 1> (x, c)
                y3 = Compress <axis = -2> (x, c)
            }}""",
            sizes={"n": 3}, feeds={"c": [True, False, True]})
        for dtype in ("bool", "float")
    ),
    Case("Compress to nothing", "g (float[n, 4] x, bool[3] c) => (y) { y = Compress <axis = 1> (x, c) }",
        sizes={"n": 3}, feeds={"c": [False] * 3}),
    *(
        Case(f"ReverseSequence along {time_axis}",
            f"g (float[t, b, 2] x, int64[n] l) => (y) {{ y = ReverseSequence <time_axis = {time_axis}, batch_axis = {batch_axis}> (x, l) }}",
            sizes={"t": 3, "b": 3}, feeds=[{"l": [1, 3, 2]}, {"l": [3, 1, 3]}])
        for time_axis, batch_axis in ((0, 1), (1, 0))
    ),
    *(
        Case(f"ReverseSequence of {dtype}",
            f"g ({dtype}[t, 2] x, int64[2] l) => (y) {{ y = ReverseSequence (x, l) }}",
            feeds={"x": [[1, 0], [1, 1], [0, 0]], "l": [3, 2]})
        for dtype in ("bool", "int8", "int64")
    ),
    *(
        Case(f"triangles, NaN outside: {k}",
            f"""g (float[b, n, m] x) => (y1, y2) <int64 k = {{{k}}}> {{
                y1 = Trilu <upper = 0> (x, k)
                y2 = Trilu <upper = 1> (x, k)
            }}""",
            feeds=[
                {"x": np.random.default_rng(0).standard_normal((2, 4, 3))},
                {"x": np.full((2, 3, 4), np.nan)},
            ],
            coreml=Emits(band_part=0))
        for k in (-2, -1, 0, 1, 2)
    ),
    Case("triangles of integers",
        """g (int64[2, 3, 4] x) => (y1, y2) <int64 k = {0}> {
            y1 = Trilu <upper = 0> (x, k)
            y2 = Trilu <upper = 1> (x, k)
        }"""),
    Case("triangles from a fed diagonal",
        """g (float[4, n] x, int64 k, float[2, 4, n] x1, float[2, 3, 2, 4, n] x2, bool[4, n] x3)
            => (y1, y2, y3, y4, y5, y6, y7) {
            y1 = Trilu <upper = 0> (x, k)
            y2 = Trilu <upper = 1> (x, k)
            y3 = Trilu <upper = 0> (x1, k)
            y4 = Trilu <upper = 1> (x1, k)
            y5 = Trilu <upper = 0> (x2, k)
            y6 = Trilu <upper = 1> (x2, k)
            y7 = Trilu (x3, k)
        }""",
        sizes={"n": 5}, feeds=[{"k": k} for k in (-1, 0, 2)]),
    *(
        Case(f"Range of {dtype}",
            f"g ({dtype} a, {dtype} b, {dtype} c) => ({dtype}[?] y) {{ y = Range (a, b, c) }}",
            feeds=[dict(zip("abc", three, strict=True)) for three in ((0, 5, 1), (3, 12, 4), (5, -3, -2))])
        for dtype in ("int64", "float")
    ),
    Case("positions of a free length",
        """g (float[b, n] x) => (int64[n] y)
            <int64 one = {1}, int64 start = {0}, int64 delta = {1}> {
            s = Shape (x)
            m = Gather (s, one)
            y = Range (start, m, delta)
        }""",
        sizes=[{"b": 2, "n": 1}, {"b": 2, "n": 6}]),
    Case("constants of computed sizes",
        """g (float[b, n] x, int64[2] t) => (float[b, n] y, int64[?, ?] z, bool[b, n] w) {
            s = Shape (x)
            y = ConstantOfShape <value = float[1] {-1.5}> (s)
            z = ConstantOfShape <value = int64[1] {7}> (t)
            w = ConstantOfShape <value = bool[1] {1}> (s)
        }""",
        sizes=[{"b": 2, "n": 1}, {"b": 2, "n": 4}], feeds={"t": [2, 3]}),
    Case("a constant of 64 bits",
        "g (int64[2] t) => (int64[?, ?] z) { z = ConstantOfShape <value = int64[1] {-9223372036854775808}> (t) }",
        feeds={"t": [2, 3]}, coreml=Refused("fit into 32 bits")),
    Case("EyeLike",
        """g (int32[n, m] x) => (y1, y2, y3) {
            y1 = EyeLike <dtype = 1, k = -1> (x)
            y2 = EyeLike <dtype = 1, k = 0> (x)
            y3 = EyeLike <dtype = 1, k = 2> (x)
        }""",
        sizes=[{"n": 3, "m": 4}, {"n": 5, "m": 2}]),
    *(
        Case(f"unique elements, {dtype}",
            f"g ({dtype}[a, b] x) => (y, i, j, c) {{ y, i, j, c = Unique <sorted = {ordered}> (x) }}",
            feeds=[{"x": [[2, 1, 1], [3, 4, 3], [2, -5, 1]]}, {"x": np.zeros((2, 2))}])
        for dtype, ordered in (("float", 0), ("int64", 1))
    ),
    *(
        Case(f"unique slices along {axis}",
            f"g (float[a, b, c] x) => (y, i, j, c) {{ y, i, j, c = Unique <axis = {axis}, sorted = {ordered}> (x) }}",
            feeds=[{"x": SLICES}, {"x": SLICES[:1]}, {"x": SLICES[:, :1]}])
        for axis, ordered in ((0, 1), (1, 0), (-1, 1))
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
