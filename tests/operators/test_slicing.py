"""Slice, Split, Concat, Pad, CenterCropPad: of sizes and limits that are known, free and computed."""

import pytest

from tests.operators.cases import Case, Emits, Fails, Only, Refused, graph
from tests.operators.running import TARGETS, check

FAR = 2**63 - 1
MODES = ("constant", "edge", "reflect", "wrap")
STEPS = [
    (0, FAR, 1), (1, -1, 1), (-3, FAR, 1), (0, FAR, 2), (1, 4, 2), (0, 2, 1), (-2, -1, 1),
    (FAR, -FAR, -1), (-1, -FAR, -1), (-1, -FAR, -2), (3, 0, -1), (-2, -4, -1), (3, -FAR, -2),
    (-1, 0, -3), (FAR, 1, -2), (0, 100, 1), (-100, 3, 1), (100, -100, -1),
]  # fmt: skip
"""Starts, ends and steps."""

# fmt: off
CASES: list[Case] = [
    # Slice
    *(
        Case(f"slices of a free axis: {start}, {end}, {step}",
            f"""g (float[b, n, 2] x) => (y) <int64[1] starts = {{{start}}},
                int64[1] ends = {{{end}}}, int64[1] axes = {{1}}, int64[1] steps = {{{step}}}> {{
                y = Slice (x, starts, ends, axes, steps)
            }}""",
            sizes=[{"b": 2, "n": 5}, {"b": 2, "n": 6}])
        for start, end, step in STEPS
    ),
    Case("slices of known axes",
        """g (int64[4, 5, 7] x) => (y1, y2, y3)
            <int64[2] starts = {1, -3}, int64[2] ends = {9223372036854775807, -9223372036854775807},
            int64[2] axes = {0, -1}, int64[2] steps = {2, -2}, int64[2] starts1 = {-1, 0},
            int64[2] ends1 = {-9223372036854775807, 9223372036854775807}, int64[2] axes1 = {1, 0},
            int64[2] steps1 = {-1, 3}, int64[2] starts2 = {-100, 100}, int64[2] ends2 = {100, -100},
            int64[2] axes2 = {1, 2}, int64[2] steps2 = {1, -3}> {
            y1 = Slice (x, starts, ends, axes, steps)
            y2 = Slice (x, starts1, ends1, axes1, steps1)
            y3 = Slice (x, starts2, ends2, axes2, steps2)
        }"""),
    *(
        Case(f"slices of six axes and of two: {start}, {end}, {step}",
            f"""g (float[2, 1, 2, 1, 2, 5] x, float[n, 5] x1) => (y1, y2)
                <int64[1] starts = {{{start}}}, int64[1] ends = {{{end}}}, int64[1] axes = {{-1}},
                int64[1] steps = {{{step}}}> {{
                y1 = Slice (x, starts, ends, axes, steps)
                y2 = Slice (x1, starts, ends, axes, steps)
            }}""",
            sizes={"n": 3}, coreml=coreml)
        for start, end, step, coreml in (
            (-1, -100, -1, None),
            (3, 0, -2, None),
            (1, 100, 2, None),
            (-2, 3, 1, Refused("without elements")),
        )
    ),
    Case("slices of nothing",
        """g (float[2, 1, 2, 1, 2, 5] x, float[n, 5] x1) => (y1, y2)
            <int64[1] three = {3}, int64[1] axes = {-1}> {
            y1 = Slice (x, three, three, axes)
            y2 = Slice (x1, three, three, axes)
        }""",
        sizes={"n": 3}, coreml=Refused("without elements")),
    Case("slices up with computed limits",
        """g (bool[b, n] x, int64[1] s, int64[1] e) => (y1, y2)
            <int64[1] axes = {1}, int64[1] one = {1}, int64[1] two = {2}> {
            y1 = Slice (x, s, e, axes, one)
            y2 = Slice (x, s, e, axes, two)
        }""",
        sizes={"b": 2, "n": 9}, feeds=[{"s": [s], "e": [e]} for s, e in ((1, 8), (-7, -1), (2, 5))]),
    Case("slices down with computed limits",
        """g (bool[b, n] x, int64[1] s, int64[1] e) => (y1, y2)
            <int64[1] axes = {1}, int64[1] minus_one = {-1}, int64[1] minus_two = {-2}> {
            y1 = Slice (x, s, e, axes, minus_one)
            y2 = Slice (x, s, e, axes, minus_two)
        }""",
        sizes={"b": 2, "n": 9}, feeds=[{"s": [s], "e": [e]} for s, e in ((8, 1), (-1, -7), (5, 2), (-1, 3))]),
    Case("a table's beginning, as long as the input",
        """g (float[b, n] x, float[1, 16] x1) => (y)
            <int64[1] one = {1}, int64[1] zero = {0}, int64[1] axes = {1}> {
            s = Shape (x)
            m = Gather (s, one)
            t = Slice (x1, zero, m, axes)
            y = Add (x, t)
        }""",
        sizes=[{"b": 2, "n": 3}, {"b": 2, "n": 16}]),
    # Split, Concat, Tile
    Case("splits of a free axis",
        "g (float[2, n] x) => (p, q, r) { p, q, r = Split <axis = 1, num_outputs = 3> (x) }",
        sizes=[{"n": 5}, {"n": 6}, {"n": 7}, {"n": 9}, {"n": 11}]),
    *(
        Case(f"splits of {dtype} in parts fed",
            f"g ({dtype}[6, 2] x, int64[2] s) => ({dtype}[?, 2] p, {dtype}[?, 2] q) {{ p, q = Split <axis = 0> (x, s) }}",
            feeds=[{"s": [5, 1]}, {"s": [1, 5]}])
        for dtype in ("float", "int64")
    ),
    Case("splits in known parts of a free axis",
        "g (float[b, n] x) => (p, q) <int64[2] parts = {2, 3}> { p, q = Split <axis = -1> (x, parts) }",
        sizes={"b": 2, "n": 5}),
    Case("concats of booleans and free axes",
        "g (bool[b, n] x, bool[b, 3] x1) => (y) { y = Concat <axis = -1> (x, x1, x) }",
        sizes=[{"b": 2, "n": 1}, {"b": 2, "n": 4}]),
    Case("tiled as often as is computed",
        """g (float[n, 3] x) => (y) <float[1, 4, 2] x1, int64[2] more = {1, 1}> {
            s = Shape <start = 0, end = 1> (x)
            r = Concat <axis = 0> (s, more)
            y = Tile (x1, r)
        }""",
        sizes={"n": 3}),
    # Pad
    *(
        Case(f"pads of {dtype}",
            graph(
                f"{dtype}[b, 3, n, 4] x",
                [f'Pad <mode = "{mode}"> (x, pads)' for mode in MODES],
                "int64[8] pads = {0, 1, 2, 0, 0, 2, 1, 3}",
            ),
            sizes=[{"b": 2, "n": 5}, {"b": 1, "n": 3}])
        for dtype in ("float", "float16", "int64", "bool")
    ),
    *(
        Case(f"pads with -3: {pads}",
            graph(
                "float[n, 2, 4, 5] x, float[n, 2, h, 5] z",
                [f'Pad <mode = "{mode}"> ({x}, pads, value)' for mode in MODES for x in "xz"],
                f"int64[8] pads = {{0, 0, {pads}}}, float value = {{-3.0}}",
            ),
            sizes={"n": 2, "h": 4})
        for pads in ("2, 1, 0, 0, 3, 0", "3, -1, 0, 0, 0, 2")
    ),
    Case("pads that cut",
        graph(
            "float[b, n] x",
            [f'Pad <mode = "{mode}"> (x, pads)' for mode in MODES],
            "int64[4] pads = {0, -1, 0, 2}",
        ),
        sizes=[{"b": 2, "n": 6}, {"b": 1, "n": 4}]),
    Case("pads fed",
        graph(
            "float[n, 3, w] x, int64[4] p, float v",
            [f'Pad <mode = "{mode}"> (x, p, v, axes)' for mode in MODES],
            "int64[2] axes = {2, -2}",
        ),
        sizes={"n": 2, "w": 5}, feeds=[{"p": [1, 2, 3, 0]}, {"p": [0, 0, 0, 0]}]),
    *(
        Case(f"pads of {dtype} fed, negative ones too, {mode}",
            f"""g ({dtype}[b, n] x, int64[2] p) => (y) <int64[1] axes = {{-1}}> {{
                y = Pad <mode = "{mode}"> (x, p, "", axes)
            }}""",
            sizes={"b": 2, "n": 5}, feeds=[{"p": pads} for pads in ([1, 2], [0, 3], [-2, 1], [2, -1])],
            tflite=Fails("Pad value has to be greater") if mode == "constant" else None)
        for dtype in ("float", "int64")
        for mode in MODES
    ),
    *(
        Case(f"pads of {dtype} with a fed value",
            f"g ({dtype}[b, 3] x, {dtype} v) => (y) <int64[4] pads = {{1, 0, 2, 1}}> {{ y = Pad (x, pads, v) }}",
            sizes={"b": 2}, feeds={"v": 7})
        for dtype in ("float", "int64")
    ),
    Case("pads by more than there is",
        """g (float[3] x) => (y1, y2) <int64[2] pads = {2, 2}> {
            y1 = Pad <mode = "reflect"> (x, pads)
            y2 = Pad <mode = "wrap"> (x, pads)
        }"""),
    Case("pads by far more than there is",
        """g (float[1, 3] x) => (y1, y2) <int64[4] pads = {0, 7, 0, 8}> {
            y1 = Pad <mode = "edge"> (x, pads)
            y2 = Pad <mode = "wrap"> (x, pads)
        }"""),
    Case("pads of six axes",
        """g (float[2, 1, 3, 2, 2, 3] x) => (y)
            <int64[12] pads = {0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1}> {
            y = Pad (x, pads)
        }"""),
    Case("a pad of an image is one operation",
        """g (float[b, 3, h, w] x) => (y)
            <int64[8] pads = {0, 0, 1, 2, 0, 0, 3, 4}, float value = {-2.5}> {
            y = Pad (x, pads, value)
        }""",
        sizes={"b": 1, "h": 2, "w": 2}, coreml=Only("pad")),
    Case("reflected borders of a free size",
        'g (float[1, n] x) => (y) <int64[4] pads = {0, 0, 0, 64}> { y = Pad <mode = "reflect"> (x, pads) }',
        sizes=[{"n": 65}, {"n": 90}], tflite=Emits(ABS=1, ADD=3, SUB=2, NEG=0, CAST=0)),
    Case("reflected borders of an image",
        """g (float[1, 2, h, w] x) => (y1, y2)
            <int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, int64[8] pads1 = {0, 0, 3, 2, 0, 0, 3, 3}> {
            y1 = Pad <mode = "reflect"> (x, pads)
            y2 = Pad <mode = "reflect"> (x, pads1)
        }""",
        sizes=[{"h": 4, "w": 6}, {"h": 5, "w": 4}], coreml=Emits(pad=2)),
    Case("repeated borders of an image, once of more than there is",
        """g (float[1, 2, h, w] x) => (y1, y2)
            <int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}, int64[8] pads1 = {0, 0, 3, 2, 0, 0, 3, 3}> {
            y1 = Pad <mode = "edge"> (x, pads)
            y2 = Pad <mode = "edge"> (x, pads1)
        }""",
        sizes=[{"h": 1, "w": 6}, {"h": 5, "w": 1}], coreml=Emits(pad=1)),
    Case("reflected by a gather for each axis",
        'g (float[4, 5] x) => (y) <int64[4] pads = {1, 1, 1, 2}> { y = Pad <mode = "reflect"> (x, pads) }',
        tflite=Only("GATHER", "GATHER")),
    *(
        Case(f"borders of a long signal: {mode}, {before},{behind}",
            f"""g (float[n, 3000, 2] x) => (y) <int64[6] pads = {{0, {before}, 0, 0, {behind}, 0}}> {{
                y = Pad <mode = "{mode}"> (x, pads)
            }}""",
            sizes={"n": 2})
        for mode in ("reflect", "edge", "wrap")
        for before, behind in ((3, 2), (0, 5))
    ),
    *(
        Case(f"cropped and padded at the centre: {shape}",
            f"g (float[b, h, w] x) => (y) <int64[2] shape = {{{shape}}}> {{ y = CenterCropPad <axes = [1, 2]> (x, shape) }}",
            sizes=[{"b": 2, "h": 4, "w": 5}, {"b": 1, "h": 7, "w": 2}])
        for shape in ("6,3", "3,6", "5,2", "4,4")
    ),
    Case("cropped and padded along known axes",
        "g (float[n, 5, 8, 3] x) => (y) <int64[2] shape = {8, 5}> { y = CenterCropPad <axes = [-3, 2]> (x, shape) }",
        sizes={"n": 2}),
    # integers with scales, and other types
    *(
        Case(f"types that kernels take: {dtype}",
            f"""g ({dtype}[4] x) => (y1, y2, y, z, y3)
                <int64[1] indices = {{1}}, int64[1] starts = {{1}}, int64[1] ends = {{3}},
                int64[2] parts = {{2, 2}}> {{
                y1 = Gather (x, indices)
                y2 = Slice (x, starts, ends)
                y, z = Split (x, parts)
                y3 = Concat <axis = 0> (x, x)
            }}""",
            ranges={"x": (0, 2)})
        for dtype in ("bool", "uint8", "int16")
    ),
    *(
        Case(f"moved as integers: {made}",
            f"""g (float[n, 4] x) => (y) <float scale, int8 zero = {{3}}, {limits}> {{
                a = QuantizeLinear (x, scale, zero)
                b = DequantizeLinear (a, scale, zero)
                {node}
                d = QuantizeLinear (c, scale, zero)
                y = DequantizeLinear (d, scale, zero)
            }}""",
            sizes={"n": 5}, weights={"scale": 0.02}, tflite=Only("QUANTIZE", made, "DEQUANTIZE"))
        for made, node, limits in (
            ("GATHER", 'c = Pad <mode = "edge"> (b, pads)', "int64[4] pads = {0, 1, 0, 2}"),
            ("PADV2", "c = Pad (b, pads)", "int64[4] pads = {0, 1, 0, 2}"),
            ("SPLIT_V", "a1, c = Split <axis = 1> (b, parts)", "int64[2] parts = {3, 1}"),
            (
                "STRIDED_SLICE",
                "c = Slice (b, starts, ends, axes)",
                "int64[2] starts = {3, 1}, int64[2] ends = {9, 9}, int64[2] axes = {0, 1}",
            ),
        )
    ),
    *(
        Case(f"{dtype}: {node}", f"g ({dtype}[4] x) => ({outputs}) <{limits}> {{ {outputs} = {node} }}",
            tflite=Refused(dtype) if dtype in refused else None)
        for outputs, node, limits, refused in (
            ("y", "Gather (x, places)", "int64[1] places = {1}", ("uint32", "uint64")),
            ("y, z", "Split (x, parts)", "int64[2] parts = {2, 2}", ("uint32", "uint64")),
            ("y", "Slice (x, one, three)", "int64[1] one = {1}, int64[1] three = {3}", ("uint64",)),
            ("y", "Concat <axis = 0> (x, x)", "", ("uint64",)),
        )
        for dtype in ("uint32", "uint64")
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
