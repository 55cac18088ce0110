"""MaxPool, AveragePool, LpPool and their kin, their indices, MaxUnpool."""

import numpy as np
import pytest

from tests.operators.cases import Case, Emits, Only, Refused
from tests.operators.running import TARGETS, check

WINDOWS = [
    # sizes, attributes
    ("2, 3, 9", "kernel_shape = [3], strides = [2], pads = [1, 1]"),
    ("2, 3, 9", "kernel_shape = [3], strides = [2], pads = [1, 0], ceil_mode = 1"),
    ("1, 3, 7, 8", "kernel_shape = [2, 3], strides = [2, 1], pads = [0, 1, 1, 1]"),
    ("2, 3, 9, 8", "kernel_shape = [3, 2], strides = [2, 3], pads = [0, 1, 2, 0]"),
    ("2, 2, 5, 6, 7", "kernel_shape = [2, 3, 2], strides = [2, 2, 1], pads = [1, 0, 0, 0, 1, 1]"),
    ("2, 3, 9, 8, 7", "kernel_shape = [2, 3, 2], strides = [1, 2, 2], pads = [1, 0, 0, 0, 1, 1], ceil_mode = 1"),
    ("1, 2, 6, 7", "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1"),
    ("2, 3, 9, 8", "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1"),
    ("1, 2, 7, 8", "kernel_shape = [3, 2], strides = [3, 2], pads = [1, 1, 1, 1], ceil_mode = 1"),
    ("1, 2, 4, 4", "kernel_shape = [2, 2], strides = [3, 3], pads = [1, 1, 1, 1], ceil_mode = 1"),
    ("1, 2, 10", "kernel_shape = [3], strides = [4], pads = [1, 1], ceil_mode = 1"),
    ("1, 2, 5, 6, 7", "kernel_shape = [2, 3, 2], strides = [2, 2, 3], pads = [1, 0, 1, 0, 1, 0], ceil_mode = 1"),
    ("1, 3, 9, 10", "kernel_shape = [3, 2], dilations = [2, 3], strides = [1, 2], pads = [1, 1, 0, 1]"),
    ("2, 3, 9, 8", "kernel_shape = [3, 2], dilations = [2, 3], strides = [2, 1], pads = [1, 0, 2, 1]"),
    ("1, 2, 6, 7, 6", "kernel_shape = [2, 2, 3], dilations = [2, 3, 1]"),
    ("1, 2, 7, 8", 'kernel_shape = [3, 2], strides = [2, 3], auto_pad = "SAME_UPPER"'),
    ("1, 2, 7, 8", 'kernel_shape = [3, 2], strides = [2, 3], auto_pad = "SAME_LOWER"'),
    ("2, 3, 9, 8", 'kernel_shape = [3, 4], strides = [2, 3], auto_pad = "SAME_LOWER"'),
    ("2, 3, 9, 8", 'kernel_shape = [4, 3], strides = [3, 2], auto_pad = "SAME_UPPER"'),
]  # fmt: skip
FREE = [
    # sizes, attributes
    ("n, 3, h", "kernel_shape = [3], strides = [2], pads = [1, 1]"),
    ("n, 2, h, w", "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]"),
    ("n, 2, h, w", "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1"),
    ("n, 2, h, w", "kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1"),
    ("n, 2, h, w", "kernel_shape = [2, 3], strides = [3, 3], pads = [1, 1, 1, 1], ceil_mode = 1"),
    ("n, 2, h, w", 'kernel_shape = [3, 2], strides = [2, 3], auto_pad = "SAME_UPPER"'),
    ("n, 2, h, w", 'kernel_shape = [3, 2], strides = [2, 3], auto_pad = "SAME_LOWER"'),
    ("n, 2, h, w", 'kernel_shape = [3, 4], strides = [2, 3], auto_pad = "SAME_LOWER"'),
    ("n, 2, h, w", 'kernel_shape = [4, 3], strides = [3, 2], auto_pad = "SAME_UPPER"'),
    ("n, 2, h, 8", "kernel_shape = [2, 3], dilations = [3, 2], pads = [1, 1, 1, 0]"),
    ("n, 2, h, w", "kernel_shape = [3, 2], strides = [2, 1], dilations = [2, 3], pads = [1, 0, 2, 1]"),
    ("n, 2, 4, 5, 6", "kernel_shape = [2, 2, 2], strides = [2, 2, 2]"),
]  # fmt: skip
SIZES = [{"n": 1, "h": 7, "w": 8}, {"n": 2, "h": 9, "w": 11}, {"n": 1, "h": 8, "w": 5}]
KINDS = [
    # the name, the operator, more attributes, the tolerance
    ("largest", "MaxPool", "", 1e-5),
    ("mean", "AveragePool", "", 1e-5),
    ("mean with pads", "AveragePool", ", count_include_pad = 1", 1e-5),
    *((f"norm {p}", "LpPool", f", p = {p}", 1e-4) for p in (1, 2, 3)),
]
BELOW_ZERO = {"x": (-4, 1)}
"""Mostly, as no padding is."""

# fmt: off
CASES: list[Case] = [
    Case("indices",
        """g (float[2, 3, 6, 7] x, float[1, 2, 6, 7] x1, float[1, 2, 6, 7] x2, float[1, 2, 6, 7] x3,
            float[2, 3, 8] x4, float[1, 2, 4, 4, 6] x5, float[1, 2, 5, 6] x6)
            => (y, i, z, j, a, k, b, l, c, m, d, n, e, o) {
            y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
            z, j = MaxPool <kernel_shape = [3, 2], strides = [2, 1], pads = [1, 1, 1, 0]> (x1)
            a, k = MaxPool <kernel_shape = [2, 2], dilations = [2, 3]> (x2)
            b, l = MaxPool <kernel_shape = [2, 2], storage_order = 1> (x3)
            c, m = MaxPool <kernel_shape = [3], strides = [3]> (x4)
            d, n = MaxPool <kernel_shape = [2, 2, 2], strides = [2, 2, 3]> (x5)
            e, o = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (x6)
        }"""),
    Case("indices of free sizes, with equal numbers",
        """g (float[n, 3, 9] x, float[n, 3, 9, 8] v, float[n, 3, h, 8] w, float[2, 3, h, 7] u,
            float[n, 3, 9, 8, 7] t) => (y, i, z, j, a, k, b, l, c, m) {
            y, i = MaxPool <kernel_shape = [3], strides = [2], pads = [1, 0]> (x)
            z, j = MaxPool <kernel_shape = [3, 2], strides = [2, 1], dilations = [2, 3], pads = [1, 0, 2, 1]> (v)
            a, k = MaxPool <kernel_shape = [2, 2], strides = [2, 2], storage_order = 1> (w)
            b, l = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1> (u)
            c, m = MaxPool <kernel_shape = [2, 2, 2], strides = [1, 2, 2]> (t)
        }""",
        sizes=[{"n": 1, "h": 9}, {"n": 2, "h": 7}, {"n": 1, "h": 8}],
        feeds=[
            {
                name: np.random.default_rng(seed).integers(-9, 9, (n, 3, *rest))
                for seed, (name, rest) in enumerate(
                    {"x": (9,), "v": (9, 8), "w": (h, 8), "t": (9, 8, 7)}.items()
                )
            }
            for n, h in ((1, 9), (2, 7), (1, 8))
        ]),
    Case("indices of a free batch",
        "g (float[n, 3, 6, 7] x) => (y, i) { y, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) }",
        sizes={"n": 3}),
    *(
        Case(f"unpooled: batch {batch}",
            f"""g (float[{batch}, 3, 6, 8] x) => (y) {{
                a, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
                b = Exp (a)
                y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (b, i)
            }}""",
            sizes={"n": 2})
        for batch in ("2", "n")
    ),
    *(
        Case(f"unpooled to places fed: batch {batch}",
            f"""g (float[{batch}, 3, 2, 4] x, int64[{batch}, 3, 2, 4] at) => (y) {{
                y = MaxUnpool <kernel_shape = [2, 2], strides = [3, 2]> (x, at)
            }}""",
            sizes={"n": 2}, feeds={"at": np.random.default_rng(0).permutation(240)[:48].reshape(2, 3, 2, 4)})
        for batch in ("2", "n")
    ),
    Case("unpooled, overlapping",
        """g (float[1, 1, 2, 2] x, int64[1, 1, 2, 2] i) => (y) {
            y = MaxUnpool <kernel_shape = [2, 2], strides = [1, 1]> (x, i)
        }""",
        feeds={"i": [[[[0, 2], [6, 8]]]]}),
    *(
        Case(f"the largest of {dtype}: {window}", f"g ({dtype}[{x}] x) => (y) {{ y = MaxPool <{window}> (x) }}",
            ranges={"x": (low, high)})
        for dtype, low, high in (("int8", -128, 127), ("uint8", 0, 255))
        for x, window in (
            ("2, 3, 9", "kernel_shape = [3], strides = [2], pads = [1, 1]"),
            ("1, 3, 7, 8", "kernel_shape = [2, 3], strides = [2, 1], pads = [0, 1, 1, 1]"),
            (
                "1, 3, 9, 10",
                "kernel_shape = [3, 2], dilations = [2, 3], strides = [1, 2], pads = [1, 1, 0, 1]",
            ),
            ("1, 2, 6, 7", "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1"),
        )
    ),
    Case("of all there is",
        """g (float[n, 3, h, 5] x) => (y1, y2, y3, y4, y5) {
            y1 = GlobalAveragePool (x)
            y2 = GlobalMaxPool (x)
            y3 = GlobalLpPool <p = 1> (x)
            y4 = GlobalLpPool <p = 2> (x)
            y5 = GlobalLpPool <p = 3> (x)
        }""",
        sizes=[{"n": 1, "h": 9}, {"n": 2, "h": 7}], tol=1e-4),
    *(
        Case(f"a window larger than the image: {op}",
            f"""g (float[n, 3, 5, 4] x) => (y) {{
                y = {op} <kernel_shape = [900, 900], strides = [900, 900], ceil_mode = 1> (x)
            }}""",
            sizes={"n": 2}, tflite=Emits(PAD=0, PADV2=0))
        for op in ("MaxPool", "AveragePool")
    ),
    Case("a counted window larger than the image",
        """g (float[n, 3, 5, 4] x) => (y) {
            y = AveragePool <kernel_shape = [900, 900], strides = [900, 900], ceil_mode = 1, count_include_pad = 1> (x)
        }""",
        sizes={"n": 2}, tflite=Emits(PAD=0, PADV2=0)),
    Case("one window over a border",
        """g (float[1, 3, 5, 4] x) => (y) {
            y = AveragePool <kernel_shape = [7, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)
        }"""),
    Case("ceil that is same",
        "g (float[1, 2, 6, 6] x) => (y) { y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (x) }",
        tflite=Only("MAX_POOL_2D")),
    *(
        Case(f"one operation: {op}",
            f"""g (float[n, 3, h, w] x) => (y) {{
                y = {op}Pool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], ceil_mode = 1> (x)
            }}""",
            sizes={"n": 1, "h": 9, "w": 8}, coreml=Only(made))
        for op, made in (("Max", "max_pool"), ("Average", "avg_pool"))
    ),
    Case("dilated maxima of free sizes",
        """g (float[n, 2, h, w] x) => (y) {
            y = MaxPool <kernel_shape = [3, 3], dilations = [2, 2], pads = [2, 2, 2, 2]> (x)
        }""",
        sizes={"n": 2, "h": 7, "w": 8}, tflite=Emits(STRIDED_SLICE=6, MAXIMUM=4, GATHER=0),
        coreml=Only("pad", *(["slice_by_index"] * 3 + ["maximum"] * 2) * 2)),
    Case("dilated means",
        "g (float[n, 2, h, w] x) => (y) { y = AveragePool <kernel_shape = [3, 3], dilations = [2, 2]> (x) }",
        sizes={"n": 2, "h": 7, "w": 8}, tflite=Emits("DEPTHWISE_CONV_2D"), coreml=Only("conv")),
    Case("a dilated mean of a free number of channels",
        "g (float[2, c, h, w] x) => (y) { y = AveragePool <kernel_shape = [3, 3], dilations = [2, 2]> (x) }",
        sizes={"c": 3, "h": 7, "w": 8}, tflite=Refused("free number of channels")),
    Case("padding that free sizes decide",
        """g (float[n, 2, h, w] x) => (y) {
            y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_LOWER"> (x)
        }""",
        sizes=[{"n": 1, "h": 7, "w": 8}, {"n": 1, "h": 1, "w": 2}],
        tflite=Emits(PADV2=1, FLOOR_MOD=1, MINIMUM=0), coreml=Emits(pad=1, slice_by_index=1, concat=2)),
    Case("one axis of three",
        """g (float[1, 2, 5, 6, 7] x) => (y1, y2) {
            y1 = MaxPool <kernel_shape = [2, 1, 1]> (x)
            y2 = MaxPool <kernel_shape = [1, 2, 1]> (x)
        }""",
        tflite=Emits(MAX_POOL_2D=2, RESHAPE=4)),
    *(
        Case(f"columns, then rows: {size}",
            f"""g (float[n, 3, {size}] x) => (y1, y2, y3, y4) {{
                y1 = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (x)
                y2 = MaxPool <kernel_shape = [5, 3], pads = [0, 1, 2, 1]> (x)
                y3 = MaxPool <kernel_shape = [4, 4], auto_pad = "SAME_LOWER"> (x)
                y4 = MaxPool <kernel_shape = [4, 6]> (x)
            }}""",
            sizes={"n": 2, "h": 7, "w": 8}, tflite=Emits(MAX_POOL_2D=8))
        for size in ("7,8", "h,w")
    ),
    Case("columns, then rows, of int8",
        """g (float[1, 3, 7, 8] x) => (y) <float scale = {0.05}, int8 zero = {3}> {
            a = QuantizeLinear (x, scale, zero)
            b = DequantizeLinear (a, scale, zero)
            c = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> (b)
            d = QuantizeLinear (c, scale, zero)
            y = DequantizeLinear (d, scale, zero)
        }""",
        tflite=Emits(MAX_POOL_2D=2)),
    *(
        Case(f"{name}, of int8",
            f"""g (float[1, 3, h, w] x) => (y) <float scale = {{0.05}}, int8 zero = {{3}}> {{
                a = QuantizeLinear (x, scale, zero)
                b = DequantizeLinear (a, scale, zero)
                c = MaxPool <{window}> (b)
                y = QuantizeLinear (c, scale, zero)
            }}""",
            sizes={"h": 7, "w": 8}, tflite=Emits(QUANTIZE=1, DEQUANTIZE=0))
        for name, window in (
            ("dilated", "kernel_shape = [2, 3], dilations = [3, 2], pads = [1, 1, 1, 0]"),
            ("of free padding", 'kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_LOWER"'),
        )
    ),
    *(
        Case(f"LRN of {shape}",
            f"g (float[{shape}] x) => (y) {{ y = LRN <size = 3, alpha = 0.5, beta = 0.6, bias = 1.5> (x) }}",
            sizes={"n": 1, "h": 4, "w": 5}, ios=(15, 17))
        for shape in ("1,7,4,5", "n,7,h,w")
    ),
    # each in each window
    *(
        Case(f"{name}: {x}, {window}", f"g (float[{x}] x) => (y) {{ y = {op} <{window}{more}> (x) }}",
            ranges=BELOW_ZERO, tol=tol, ios=(15, 17))
        for name, op, more, tol in KINDS
        for x, window in WINDOWS
    ),
    *(
        Case(f"{name}, free sizes: {x}, {window}",
            f"g (float[{x}] x) => (y) {{ y = {op} <{window}{more}> (x) }}",
            sizes=SIZES, ranges=BELOW_ZERO, tol=1e-4)
        for name, op, more, _ in KINDS
        for x, window in FREE
    ),
    *(
        Case(f"{name}, float16: {x}, {window}",
            f"g (float16[{x}] x) => (y) {{ y = {op} <{window}{more}> (x) }}",
            ranges=BELOW_ZERO, tol=2e-3)
        for name, op, more, _ in KINDS
        for x, window in WINDOWS
        if op != "LpPool"
    ),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
