"""Q and DQ: convolutions and poolings between them to the step, moves, and by themselves."""

import numpy as np

from tests.operators.cases import Array, Case, numbers
from tests.operators.running import on_every_target

POINTS = {"int8": (5, -9, -128, 128), "uint8": (133, 119, 0, 256)}
"""Zero points of inputs and of outputs, and the limits."""


def quantized(operator: str, x: str, weights: str = "", *, axis: int | None = None, out: int = 6,
              dtype: str = "int8", same: bool = False, sizes: str = "", tflite: str = "",
              bias_scale: float | None = None) -> Case:  # fmt: skip
    """Q(operator(DQ(x), DQ(w), DQ(b))) with integers outside.

    Args:
        operator: As text, of ``r``, ``v`` and ``c``.
        x, weights: Sizes.
        axis: That of the weights' scales; one scale without it.
        out: How many channels the bias has.
        same: Whether the output has the input's scales.
        bias_scale: Another than the product of the input's and the weights'.
    """
    zero, other, low, high = POINTS[dtype]
    lines = [f"r = DequantizeLinear({dtype} x[{x}], $0.03, {dtype}${zero})"]
    known = dict(item.split("=") for item in sizes.split())
    shape = [int(known.get(dim, dim)) for dim in x.split(",")]
    feeds = {"x": np.random.default_rng(3).integers(low, high, shape)}
    given: dict[str, Array] = {}
    if weights:
        dims = tuple(map(int, weights.split(",")))
        count = 1 if axis is None else dims[axis]
        scales = np.linspace(0.01, 0.02, count).astype(np.float32)
        made = np.clip(numbers(*dims, seed=5) * 40, -127, 127).astype(np.int8)
        given = {"w": made, "s": scales if axis is not None else scales[0]}
        ends = "[]" if axis is None else f"[{count}]"
        lines.append(f"v = DequantizeLinear<axis={axis or 0}>(int8 w![{weights}], s!{ends})")
        if "c)" in operator:
            given["b"] = np.arange(-out, out, 2) * 300
            given["t"] = np.float32(0.03) * np.tile(scales, out // count)
            if bias_scale is not None:
                given["t"] = np.full(out, bias_scale)
            lines.append(f"c = DequantizeLinear<axis=0>(int32 b![{out}], t![{out}])")
    to = f"$0.03, {dtype}${zero}" if same else f"$0.11, {dtype}${other}"
    lines += [f"a = {operator}", f"QuantizeLinear(a, {to})"]
    return Case("\n".join(lines), sizes, feeds, given, tflite=tflite, steps=True)


# fmt: off
CONVS = {
    "two axes": ("Conv<pads=[1,1,1,1]>(r, v, c)", "1,3,7,6", "6,3,3,3", 0),
    "one scale": ("Conv(r, v, c)", "1,3,7,6", "6,3,3,3", None),
    "no bias": ("Conv<pads=[1,1,2,2]>(r, v)", "1,3,7,6", "6,3,3,3", 0),
    "one axis": ("Conv<pads=[1,1]>(r, v, c)", "1,3,9", "6,3,3", 0),
    "groups": ("Conv<group=3>(r, v, c)", "1,6,7,6", "6,2,3,3", 0),
    "each channel": ("Conv<group=6, pads=[1,0,1,0]>(r, v, c)", "1,6,7,6", "6,1,3,3", 0),
    "same lower": ('Conv<auto_pad="SAME_LOWER", strides=[2,2]>(r, v, c)', "1,3,6,6", "6,3,3,3", 0),
    "three axes": ("Conv(r, v, c)", "1,2,4,4,4", "6,2,2,2,2", 0),
    "transposed": ("ConvTranspose<strides=[2,2], pads=[1,1,1,1]>(r, v, c)", "1,3,5,4", "3,6,4,4", 1),
    "transposed, cut": ("ConvTranspose<strides=[2,2], pads=[1,1,0,1]>(r, v, c)", "1,3,5,4", "3,6,3,3", None),
    "transposed, one axis": ("ConvTranspose<strides=[2]>(r, v)", "1,3,5", "3,6,3", 1),
    "transposed, groups": ("ConvTranspose<group=2, strides=[2,2]>(r, v, c)", "1,4,5,4", "4,3,3,3", 1),
}
POOLS = {
    "max": ("MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(r)", True),
    "max, other scales": ("MaxPool<kernel_shape=[3,3], pads=[1,0,1,1]>(r)", False),
    "max, dilated": ("MaxPool<kernel_shape=[2,2], dilations=[2,2]>(r)", True),
    "average": ("AveragePool<kernel_shape=[3,3], strides=[2,2]>(r)", True),
    "average, other scales": ("AveragePool<kernel_shape=[2,2], strides=[2,2]>(r)", False),
    "average, dilated": ("AveragePool<kernel_shape=[2,3], dilations=[2,1]>(r)", False),
    "average, dilated, same scales": ("AveragePool<kernel_shape=[3,3], dilations=[2,1]>(r)", True),
    "average, padded": ("AveragePool<kernel_shape=[3,3], pads=[1,1,0,1], count_include_pad=1>(r)", False),
    "average, counted": ("AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(r)", True),
    "average, not counted": ("AveragePool<kernel_shape=[3,3], pads=[1,1,0,1]>(r)", True),
    "average, ceil": ("AveragePool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(r)", True),
    "global average": ("GlobalAveragePool(r)", False),
}
FREE = {
    "conv": ("Conv<pads=[1,1,1,1], strides=[2,2]>(r, v, c)", "6,4,3,3", 0),
    "same lower": ('Conv<auto_pad="SAME_LOWER", strides=[2,2]>(r, v, c)', "6,4,3,3", 0),
    "transposed": ("ConvTranspose<strides=[2,2], pads=[1,1,0,0]>(r, v, c)", "4,6,3,3", 1),
    "transposed, groups": ("ConvTranspose<group=2, strides=[2,2]>(r, v, c)", "4,3,3,3", 1),
    "max": ("MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(r)", "", None),
    "average": ("AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(r)", "", None),
}
CASES: dict[str, Case | str] = {
    **{f"{name} of {dtype}": quantized(op, x, weights, axis=axis, dtype=dtype,
        tflite="" if name == "three axes" else "-DEQUANTIZE")
       for name, (op, x, weights, axis) in CONVS.items() for dtype in POINTS},
    **{f"{name} of {dtype}": quantized(op, "1,40,8,8", dtype=dtype, same=same,
        tflite="= DEPTHWISE_CONV_2D" if (name, dtype) == ("average, other scales", "int8") else "")
       for name, (op, same) in POOLS.items() for dtype in POINTS},
    **{f"free: {name}": quantized(op, "n,4,h,w", weights, axis=axis, sizes="n=2 h=9 w=8")
       for name, (op, weights, axis) in FREE.items()},
    # Q and DQ by themselves
    **{f"rounded to {kind} about {point}, {'iOS16' if old else 'iOS17'}": Case(f"""
        q = QuantizeLinear(x[n,4,6]~-6:6, $0.03, {kind}${point}); DequantizeLinear(q, $0.03, {kind}${point})""",
        "n=2", ios=(16,) if old else (17, 18), coreml="-quantize" if old else "= quantize dequantize")
       for kind, point in (("int8", 0), ("int8", -128), ("int8", 3), ("uint8", 128), ("uint8", 0))
       for old in (True, False)},
    **{f"rounded by each channel's scale, iOS{version}": Case("""
        q = QuantizeLinear<axis=1>([n,4,6]~-6:6, s![4], int8 z![4]); DequantizeLinear<axis=-2>(q, s![4], int8 z![4])""",
        "n=2", weights={"s": [0.1, 0.2, 0.01, 0.03], "z": [1, -3, 0, 127]}, ios=(version,), coreml=made)
       for version, made in ((16, "-quantize"), (17, "quantize"))},
    "rounded to even": Case("q = QuantizeLinear(x[1,4,6], $0.5, int8$0); DequantizeLinear(q, $0.5, int8$0)",
        feeds={"x": np.arange(-12, 12).reshape(1, 4, 6) / 4}, ios=(16, 17)),
    "rounded twice, by 0.03 and (0.05, int8|0.03, uint8)": Case("""
        q = QuantizeLinear([n,4,6]~-3:3, $0.03, int8$0); d = DequantizeLinear(q, $0.03, int8$0)
        r = Reshape(d, {-1,24}); e = QuantizeLinear(r, $(=0.05|0.03), (=int8|uint8)$0)
        DequantizeLinear(e, $(=0.05|0.03), (=int8|uint8)$0)""", "n=2", tol={"tflite": 0.0501},
        coreml="= quantize dequantize reshape quantize dequantize"),
    "a pair that undoes itself, of int8 and (int8|uint8)": Case("""
        q = QuantizeLinear([n,4,6]~-3:3, $0.03, int8$0); d = DequantizeLinear(q, $0.03, int8$0)
        e = QuantizeLinear(d, $0.03, (int8|uint8)$0); DequantizeLinear(e, $0.03, (int8|uint8)$0)""", "n=2",
        coreml="quantize*(=1|2)"),
    "fed scales and zero points of (int8|uint8)": Case("""
        q = QuantizeLinear<axis=-2>([n,4,6]~-3:3, s[4], (int8|uint8) z[4])
        Identity(q); DequantizeLinear<axis=1>(q, s[4], (int8|uint8) z[4])""", "n=2",
        {"s": [0.03, 0.1, 0.2, 0.3], "z": [100, 0, 1, 127]}),
    "rounded scalar": Case("q = QuantizeLinear(x[], $0.03, int8$3); DequantizeLinear(q, $0.03, int8$3)",
        feeds={"x": 1.234}),
    "integers that other operators take": Case("""
        q = QuantizeLinear([n,4,6]~-3:3, $0.03, int8$3); Cast<to=6>(q); Identity(q)
        t = Transpose<perm=[0,2,1]>(q); DequantizeLinear(t, $0.03, int8$3)""", "n=2", ios=(16, 17)),
    "a bias of int32 is a float": Case("c = DequantizeLinear(int32 b![8], $1e-9); Add([n,8], c)", "n=3",
        weights={"b": np.arange(-4, 4) << 26}, coreml="= add"),
    "a Conv of int8 on both sides": Case("""
        q = QuantizeLinear([n,4,5,5]~-3:3, $0.02, int8$0); d = DequantizeLinear(q, $0.02, int8$0)
        k = DequantizeLinear<axis=0>(int8![8,4,3,3]~-127:128, s![8]); c = DequantizeLinear(int32 b![8], $0.001)
        Conv(d, k, c)""", "n=3", weights={"s": np.linspace(0.01, 0.02, 8), "b": np.arange(8) * 1000}, tol=1e-4,
        coreml="= quantize dequantize constexpr_affine_dequantize conv"),
    "a Reshape and a Concat round anew": Case("""
        q = QuantizeLinear([2,6], $0.02, int8$3); d = DequantizeLinear(q, $0.02, int8$3); r = Reshape(d, {3,4})
        q1 = QuantizeLinear(r, $0.05, int8$3); d1 = DequantizeLinear(q1, $0.05, int8$3)
        qc = QuantizeLinear([3,4], $0.02, int8$3); dc = DequantizeLinear(qc, $0.02, int8$3)
        j = Concat<axis=0>(d1, dc); q2 = QuantizeLinear(j, $0.05, int8$3); DequantizeLinear(q2, $0.05, int8$3)""",
        tol=0.051),
    "a Sigmoid of another scale than its kernel's": Case("""
        q = QuantizeLinear([2,6], $0.02, int8$3); d = DequantizeLinear(q, $0.02, int8$3); a = Sigmoid(d)
        q1 = QuantizeLinear(a, $0.02, int8$3); DequantizeLinear(q1, $0.02, int8$3)""", tol=0.0201),
    "integers that stand for two things": """
        q = QuantizeLinear([2,3], $0.5, int8$3); DequantizeLinear(q, $0.5, int8$3); DequantizeLinear(q, $0.25, int8$3)""",
    "a constant that stands for two things": Case("""
        q0 = QuantizeLinear([2,8], $0.05, int8$0); d0 = DequantizeLinear(q0, $0.05, int8$0)
        v = DequantizeLinear(int8![8,8]~-60:60, $0.02, int8$0); b0 = DequantizeLinear(int32 b![8]~-900:900, $0.001)
        m0 = Gemm(d0, v, b0); q1 = QuantizeLinear(m0, $0.1, int8$0); d1 = DequantizeLinear(q1, $0.1, int8$0)
        b1 = DequantizeLinear(int32 b![8]~-900:900, $0.002); m1 = Gemm(d1, v, b1)
        q2 = QuantizeLinear(m1, $0.1, int8$0); DequantizeLinear(q2, $0.1, int8$0)""", tol=0.11,
        tflite="= QUANTIZE FULLY_CONNECTED FULLY_CONNECTED DEQUANTIZE"),
    "a bias of other scales is computed in reals": quantized(
        "Conv(r, v, c)", "1,3,7,6", "6,3,3,3", axis=0, bias_scale=0.001, tflite="DEQUANTIZE"),
    "weights with a zero point are computed in reals": Case("""
        r = DequantizeLinear(uint8[1,3,6,6]~0:256, $0.03, uint8$100)
        v = DequantizeLinear(uint8![4,3,3,3]~0:256, $0.02, uint8$90); a = Conv(r, v)
        QuantizeLinear(a, $0.3, uint8$128)""", steps=True),
    "QLinearConv": Case("""QLinearConv(uint8[1,3,6,6]~0:256, $0.03, uint8$100, int8![4,3,3,3]~-127:128,
        {0.01,0.02,0.03,0.04}, int8{0,0,0,0}, $0.4, uint8$128, int32{1000,-2000,0,50})""",
        tflite="CONV_2D -DEQUANTIZE", steps=True),
}

test = on_every_target(CASES)
