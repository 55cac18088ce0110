"""MaxPool, AveragePool, LpPool and their kin, their indices, MaxUnpool."""

import numpy as np

from tests.operators.cases import Case
from tests.operators.running import on_every_target

WINDOWS = """
    <kernel_shape=[3], strides=[2], pads=[1,1]>([2,3,9])
    <kernel_shape=[3], strides=[2], pads=[1,0], ceil_mode=1>([2,3,9])
    <kernel_shape=[2,3], strides=[2,1], pads=[0,1,1,1]>([1,3,7,8])
    <kernel_shape=[3,2], strides=[2,3], pads=[0,1,2,0]>([2,3,9,8])
    <kernel_shape=[2,3,2], strides=[2,2,1], pads=[1,0,0,0,1,1]>([2,2,5,6,7])
    <kernel_shape=[2,3,2], strides=[1,2,2], pads=[1,0,0,0,1,1], ceil_mode=1>([2,3,9,8,7])
    <kernel_shape=[3,3], strides=[2,2], ceil_mode=1>([1,2,6,7])
    <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1>([2,3,9,8])
    <kernel_shape=[3,2], strides=[3,2], pads=[1,1,1,1], ceil_mode=1>([1,2,7,8])
    <kernel_shape=[2,2], strides=[3,3], pads=[1,1,1,1], ceil_mode=1>([1,2,4,4])
    <kernel_shape=[3], strides=[4], pads=[1,1], ceil_mode=1>([1,2,10])
    <kernel_shape=[2,3,2], strides=[2,2,3], pads=[1,0,1,0,1,0], ceil_mode=1>([1,2,5,6,7])
    <kernel_shape=[3,2], dilations=[2,3], strides=[1,2], pads=[1,1,0,1]>([1,3,9,10])
    <kernel_shape=[3,2], dilations=[2,3], strides=[2,1], pads=[1,0,2,1]>([2,3,9,8])
    <kernel_shape=[2,2,3], dilations=[2,3,1]>([1,2,6,7,6])
    <kernel_shape=[3,2], strides=[2,3], auto_pad="SAME_(UPPER|LOWER)">(a[1,2,7,8])
    <kernel_shape=[3,4], strides=[2,3], auto_pad="SAME_LOWER">([2,3,9,8])
    <kernel_shape=[4,3], strides=[3,2], auto_pad="SAME_UPPER">([2,3,9,8])"""
FREE = """
    <kernel_shape=[3], strides=[2], pads=[1,1]>([n,3,h])
    <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x[n,2,h,w])
    <kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x[n,2,h,w])
    <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1>(x[n,2,h,w])
    <kernel_shape=[2,3], strides=[3,3], pads=[1,1,1,1], ceil_mode=1>(x[n,2,h,w])
    <kernel_shape=[3,2], strides=[2,3], auto_pad="SAME_(UPPER|LOWER)">(x[n,2,h,w])
    <kernel_shape=[3,4], strides=[2,3], auto_pad="SAME_LOWER">(x[n,2,h,w])
    <kernel_shape=[4,3], strides=[3,2], auto_pad="SAME_UPPER">(x[n,2,h,w])
    <kernel_shape=[2,3], dilations=[3,2], pads=[1,1,1,0]>([n,2,h,8])
    <kernel_shape=[3,2], strides=[2,1], dilations=[2,3], pads=[1,0,2,1]>(x[n,2,h,w])
    <kernel_shape=[2,2,2], strides=[2,2,2]>([n,2,4,5,6])"""
SIZES = "n=1 h=7 w=8, n=2 h=9 w=11, n=1 h=8 w=5"


def pooled(op: str, more: str, windows: str) -> str:
    """An operator in each window, over numbers that are mostly below zero, as no padding is."""
    lines = windows.replace("])", "]~-4:1)").strip().splitlines()
    return "\n".join(f"{op}{line.strip().replace('>(', more + '>(')}" for line in lines)


# fmt: off
CASES: dict[str, Case | str] = {
    "indices": """
        y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>([2,3,6,7])
        z, j = MaxPool<kernel_shape=[3,2], strides=[2,1], pads=[1,1,1,0]>([1,2,6,7])
        a, k = MaxPool<kernel_shape=[2,2], dilations=[2,3]>([1,2,6,7])
        b, l = MaxPool<kernel_shape=[2,2], storage_order=1>([1,2,6,7])
        c, m = MaxPool<kernel_shape=[3], strides=[3]>([2,3,8])
        d, n = MaxPool<kernel_shape=[2,2,2], strides=[2,2,3]>([1,2,4,4,6])
        e, o = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>([1,2,5,6])""",
    "indices of free sizes, with equal numbers": Case("""
        y, i = MaxPool<kernel_shape=[3], strides=[2], pads=[1,0]>(x[n,3,9])
        z, j = MaxPool<kernel_shape=[3,2], strides=[2,1], dilations=[2,3], pads=[1,0,2,1]>(v[n,3,9,8])
        a, k = MaxPool<kernel_shape=[2,2], strides=[2,2], storage_order=1>(w[n,3,h,8])
        b, l = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1>(u[2,3,h,7])
        c, m = MaxPool<kernel_shape=[2,2,2], strides=[1,2,2]>(t[n,3,9,8,7])""",
        "n=1 h=9, n=2 h=7, n=1 h=8", [{
            name: np.random.default_rng(seed).integers(-9, 9, (n, 3, *rest))
            for seed, (name, rest) in enumerate({"x": (9,), "v": (9, 8), "w": (h, 8),
                                                 "t": (9, 8, 7)}.items())
        } for n, h in ((1, 9), (2, 7), (1, 8))]),
    "indices of a free batch": Case(
        "y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>([n,3,6,7])", "n=3"),
    "unpooled: batch (2|n)": Case("""
        a, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>([(2|n),3,6,8]); b = Exp(a)
        MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(b, i)""", "n=2"),
    "unpooled to places fed: batch (2|n)": Case(
        "MaxUnpool<kernel_shape=[2,2], strides=[3,2]>([(2|n),3,2,4], int64 at[(2|n),3,2,4])", "n=2",
        {"at": np.random.default_rng(0).permutation(240)[:48].reshape(2, 3, 2, 4)}),
    "unpooled, overlapping": Case(
        "MaxUnpool<kernel_shape=[2,2], strides=[1,1]>([1,1,2,2], int64 i[1,1,2,2])",
        feeds={"i": [[[[0, 2], [6, 8]]]]}),
    "the largest of (int8|uint8)": """
        MaxPool<kernel_shape=[3], strides=[2], pads=[1,1]>((int8|uint8)[2,3,9]~(=-128|0):(=127|255))
        MaxPool<kernel_shape=[2,3], strides=[2,1], pads=[0,1,1,1]>((int8|uint8)[1,3,7,8]~(=-128|0):(=127|255))
        MaxPool<kernel_shape=[3,2], dilations=[2,3], strides=[1,2], pads=[1,1,0,1]>((int8|uint8)[1,3,9,10]~(=-128|0):(=127|255))
        MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>((int8|uint8)[1,2,6,7]~(=-128|0):(=127|255))""",
    "of all there is": Case("Global(Average|Max)Pool(x[n,3,h,5]); GlobalLpPool<p=(1|2|3)>(x[n,3,h,5])",
        "n=1 h=9, n=2 h=7", tol=1e-4),
    "a window larger than the image: (MaxPool|AveragePool)": Case("""
        (MaxPool|AveragePool)<kernel_shape=[900,900], strides=[900,900], ceil_mode=1>([n,3,5,4])""",
        "n=2", tflite="-PAD -PADV2"),
    "a counted window larger than the image": Case("""AveragePool<kernel_shape=[900,900],
        strides=[900,900], ceil_mode=1, count_include_pad=1>([n,3,5,4])""", "n=2", tflite="-PAD -PADV2"),
    "one window over a border":
        "AveragePool<kernel_shape=[7,3], strides=[2,2], pads=[1,1,1,1]>([1,3,5,4])",
    "ceil that is same": Case("MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>([1,2,6,6])",
        tflite="= MAX_POOL_2D"),
    "one operation: (Max|Average)": Case(
        "(Max|Average)Pool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1>([n,3,h,w])",
        "n=1 h=9 w=8", coreml="= (=max_pool|avg_pool)"),
    "dilated maxima of free sizes": Case(
        "MaxPool<kernel_shape=[3,3], dilations=[2,2], pads=[2,2,2,2]>(x[n,2,h,w])", "n=2 h=7 w=8",
        tflite="STRIDED_SLICE*6 MAXIMUM*4 -GATHER", coreml="= pad" + " slice_by_index slice_by_index"
        " slice_by_index maximum maximum" * 2),
    "dilated means": Case("AveragePool<kernel_shape=[3,3], dilations=[2,2]>(x[n,2,h,w])",
        "n=2 h=7 w=8", tflite="DEPTHWISE_CONV_2D", coreml="= conv"),
    "a dilated mean of a free number of channels": Case(
        "AveragePool<kernel_shape=[3,3], dilations=[2,2]>(x[2,c,h,w])", "c=3 h=7 w=8",
        tflite="!free number of channels"),
    "padding that free sizes decide": Case(
        'MaxPool<kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_LOWER">(x[n,2,h,w])',
        "n=1 h=7 w=8, n=1 h=1 w=2", tflite="PADV2*1 FLOOR_MOD*1 -MINIMUM", coreml="pad*1 slice_by_index*1 concat*2"),
    "one axis of three": Case("MaxPool<kernel_shape=[(2,1,1|1,2,1)]>([1,2,5,6,7])",
        tflite="MAX_POOL_2D*2 RESHAPE*4"),
    "columns, then rows: (7,8|h,w)": Case("""
        MaxPool<(kernel_shape=[5,5], pads=[2,2,2,2]|kernel_shape=[5,3], pads=[0,1,2,1]
            |kernel_shape=[4,4], auto_pad="SAME_LOWER"|kernel_shape=[4,6])>(x[n,3,(7,8|h,w)])""",
        "n=2 h=7 w=8", tflite="MAX_POOL_2D*8"),
    "columns, then rows, of int8": Case("""
        a = QuantizeLinear([1,3,7,8], $0.05, int8$3); b = DequantizeLinear(a, $0.05, int8$3)
        c = MaxPool<kernel_shape=[5,5], pads=[2,2,2,2]>(b)
        d = QuantizeLinear(c, $0.05, int8$3); DequantizeLinear(d, $0.05, int8$3)""",
        tflite="MAX_POOL_2D*2"),
    "(dilated|of free padding), of int8": Case("""
        a = QuantizeLinear([1,3,h,w], $0.05, int8$3); b = DequantizeLinear(a, $0.05, int8$3)
        c = MaxPool<(=kernel_shape=[2,3], dilations=[3,2], pads=[1,1,1,0]
            |kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_LOWER")>(b)
        QuantizeLinear(c, $0.05, int8$3)""", "h=7 w=8", tflite="QUANTIZE*1 -DEQUANTIZE"),
    "LRN of (1,7,4,5|n,7,h,w)": Case(
        "LRN<size=3, alpha=0.5, beta=0.6, bias=1.5>([(1,7,4,5|n,7,h,w)])", "n=1 h=4 w=5", ios=(15, 17)),
}
for name, op, more in (
    ("largest", "MaxPool", ""), ("mean", "AveragePool", ""),
    ("mean with pads", "AveragePool", ", count_include_pad=1"), *(
        (f"norm {p}", "LpPool", f", p={p}") for p in (1, 2, 3)),
):
    CASES[name] = Case(pooled(op, more, WINDOWS), tol=1e-4 if op == "LpPool" else 1e-5, ios=(15, 17))
    CASES[f"{name}, free sizes"] = Case(pooled(op, more, FREE), SIZES, tol=1e-4)
    if op != "LpPool":
        half = pooled(op, more, WINDOWS).replace("([", "(float16[").replace("(a[", "(float16 a[")
        CASES[f"{name}, float16"] = Case(half, tol=2e-3)

test = on_every_target(CASES)
