"""Q and DQ: convolutions and poolings between them to the step, moves, and by themselves."""

from collections.abc import Mapping

import numpy as np
import pytest

from tests.operators.cases import Array, Case, Emits, Expected, Only, numbers
from tests.operators.running import TARGETS, check

POINTS = {"int8": (5, -9, -128, 128), "uint8": (133, 119, 0, 256)}
"""Zero points of inputs and of outputs, and the limits."""


def quantized(
    name: str,
    node: str,
    x: str,
    w: str = "",
    *,
    axis: int | None = None,
    out: int = 6,
    dtype: str = "int8",
    same: bool = False,
    sizes: Mapping[str, int] | None = None,
    tflite: Expected | None = None,
    bias_scale: float | None = None,
) -> Case:
    """Q(operator(DQ(x), DQ(w), DQ(b))) with integers outside.

    Args:
        node: As text, of ``r``, ``v`` and ``c``.
        x, w: Sizes.
        axis: That of the weights' scales; one scale without it.
        out: How many channels the bias has.
        same: Whether the output has the input's scales.
        bias_scale: Another than the product of the input's and the weights'.
    """
    zero, other, low, high = POINTS[dtype]
    to_scale, to_zero = (0.03, zero) if same else (0.11, other)
    declared = [f"float scale = {{0.03}}, {dtype} zero = {{{zero}}}"]
    declared += [f"float to_scale = {{{to_scale}}}, {dtype} to_zero = {{{to_zero}}}"]
    nodes = ["r = DequantizeLinear (x, scale, zero)"]
    weights: dict[str, Array] = {}
    if w:
        dims = tuple(map(int, w.split(",")))
        count = 1 if axis is None else dims[axis]
        scales = np.linspace(0.01, 0.02, count).astype(np.float32)
        weights["w"] = np.clip(numbers(*dims, seed=5) * 40, -127, 127).astype(np.int8)
        weights["s"] = scales if axis is not None else scales[0]
        declared += [f"int8[{w}] w", "float s" if axis is None else f"float[{count}] s"]
        nodes += [f"v = DequantizeLinear <axis = {axis or 0}> (w, s)"]
    if node.endswith("c)"):
        weights["b"] = np.arange(-out, out, 2) * 300
        weights["t"] = np.float32(0.03) * np.tile(scales, out // count)
        if bias_scale is not None:
            weights["t"] = np.full(out, bias_scale)
        declared += [f"int32[{out}] b, float[{out}] t"]
        nodes += ["c = DequantizeLinear <axis = 0> (b, t)"]
    nodes += [f"a = {node}", "y = QuantizeLinear (a, to_scale, to_zero)"]
    text = f"g ({dtype}[{x}] x) => (y) <{', '.join(declared)}> {{ {' '.join(nodes)} }}"
    shape = [(sizes or {}).get(dim) or int(dim) for dim in x.split(", ")]
    feeds = {"x": np.random.default_rng(3).integers(low, high, shape)}
    return Case(name, text, sizes or {}, feeds, weights, tflite=tflite, steps=True)


CONVS = [
    # the name, the node, sizes of x and w, the axis of the scales
    ("two axes", "Conv <pads = [1, 1, 1, 1]> (r, v, c)", "1, 3, 7, 6", "6, 3, 3, 3", 0),
    ("one scale", "Conv (r, v, c)", "1, 3, 7, 6", "6, 3, 3, 3", None),
    ("no bias", "Conv <pads = [1, 1, 2, 2]> (r, v)", "1, 3, 7, 6", "6, 3, 3, 3", 0),
    ("one axis", "Conv <pads = [1, 1]> (r, v, c)", "1, 3, 9", "6, 3, 3", 0),
    ("groups", "Conv <group = 3> (r, v, c)", "1, 6, 7, 6", "6, 2, 3, 3", 0),
    ("each channel", "Conv <group = 6, pads = [1, 0, 1, 0]> (r, v, c)", "1, 6, 7, 6", "6, 1, 3, 3", 0),
    ("same lower", 'Conv <auto_pad = "SAME_LOWER", strides = [2, 2]> (r, v, c)', "1, 3, 6, 6", "6, 3, 3, 3", 0),
    ("three axes", "Conv (r, v, c)", "1, 2, 4, 4, 4", "6, 2, 2, 2, 2", 0),
    ("transposed", "ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (r, v, c)", "1, 3, 5, 4", "3, 6, 4, 4", 1),
    ("transposed, cut", "ConvTranspose <strides = [2, 2], pads = [1, 1, 0, 1]> (r, v, c)", "1, 3, 5, 4", "3, 6, 3, 3", None),
    ("transposed, one axis", "ConvTranspose <strides = [2]> (r, v)", "1, 3, 5", "3, 6, 3", 1),
    ("transposed, groups", "ConvTranspose <group = 2, strides = [2, 2]> (r, v, c)", "1, 4, 5, 4", "4, 3, 3, 3", 1),
]  # fmt: skip
POOLS = [
    # the name, the node, whether the scales stay
    ("max", "MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (r)", True),
    ("max, other scales", "MaxPool <kernel_shape = [3, 3], pads = [1, 0, 1, 1]> (r)", False),
    ("max, dilated", "MaxPool <kernel_shape = [2, 2], dilations = [2, 2]> (r)", True),
    ("average", "AveragePool <kernel_shape = [3, 3], strides = [2, 2]> (r)", True),
    ("average, other scales", "AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (r)", False),
    ("average, dilated", "AveragePool <kernel_shape = [2, 3], dilations = [2, 1]> (r)", False),
    ("average, dilated, same scales", "AveragePool <kernel_shape = [3, 3], dilations = [2, 1]> (r)", True),
    ("average, padded", "AveragePool <kernel_shape = [3, 3], pads = [1, 1, 0, 1], count_include_pad = 1> (r)", False),
    ("average, counted", "AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1> (r)", True),
    ("average, not counted", "AveragePool <kernel_shape = [3, 3], pads = [1, 1, 0, 1]> (r)", True),
    ("average, ceil", "AveragePool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (r)", True),
    ("global average", "GlobalAveragePool (r)", False),
]  # fmt: skip
FREE = [
    # the name, the node, sizes of w, the axis of the scales
    ("conv", "Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (r, v, c)", "6, 4, 3, 3", 0),
    ("same lower", 'Conv <auto_pad = "SAME_LOWER", strides = [2, 2]> (r, v, c)', "6, 4, 3, 3", 0),
    ("transposed", "ConvTranspose <strides = [2, 2], pads = [1, 1, 0, 0]> (r, v, c)", "4, 6, 3, 3", 1),
    ("transposed, groups", "ConvTranspose <group = 2, strides = [2, 2]> (r, v, c)", "4, 3, 3, 3", 1),
    ("max", "MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (r)", "", None),
    ("average", "AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (r)", "", None),
]  # fmt: skip

# fmt: off
CASES: list[Case] = [
    *(
        quantized(f"{name} of {dtype}", node, x, w, axis=axis, dtype=dtype,
            tflite=None if name == "three axes" else Emits(DEQUANTIZE=0))
        for name, node, x, w, axis in CONVS
        for dtype in POINTS
    ),
    *(
        quantized(f"{name} of {dtype}", node, "1, 40, 8, 8", dtype=dtype, same=same,
            tflite=Only("DEPTHWISE_CONV_2D") if (name, dtype) == ("average, other scales", "int8") else None)
        for name, node, same in POOLS
        for dtype in POINTS
    ),
    *(
        quantized(f"free: {name}", node, "n, 4, h, w", w, axis=axis, sizes={"n": 2, "h": 9, "w": 8})
        for name, node, w, axis in FREE
    ),
    quantized("a bias of other scales is computed in reals", "Conv (r, v, c)", "1, 3, 7, 6", "6, 3, 3, 3",
        axis=0, bias_scale=0.001, tflite=Emits("DEQUANTIZE")),
    # Q and DQ by themselves
    *(
        Case(f"rounded to {dtype} about {zero}, iOS{ios[0]}",
            f"""g (float[n, 4, 6] x) => (y) <float scale = {{0.03}}, {dtype} zero = {{{zero}}}> {{
                q = QuantizeLinear (x, scale, zero)
                y = DequantizeLinear (q, scale, zero)
            }}""",
            sizes={"n": 2}, ranges={"x": (-6, 6)}, coreml=made, ios=ios)
        for dtype, zero in (("int8", 0), ("int8", -128), ("int8", 3), ("uint8", 128), ("uint8", 0))
        for ios, made in (((16,), Emits(quantize=0)), ((17, 18), Only("quantize", "dequantize")))
    ),
    *(
        Case(f"rounded by each channel's scale, iOS{version}",
            """g (float[n, 4, 6] x) => (y) <float[4] s, int8[4] z> {
                q = QuantizeLinear <axis = 1> (x, s, z)
                y = DequantizeLinear <axis = -2> (q, s, z)
            }""",
            sizes={"n": 2}, weights={"s": [0.1, 0.2, 0.01, 0.03], "z": [1, -3, 0, 127]}, ranges={"x": (-6, 6)},
            coreml=made, ios=(version,))
        for version, made in ((16, Emits(quantize=0)), (17, Emits("quantize")))
    ),
    Case("rounded to even",
        """g (float[1, 4, 6] x) => (y) <float scale = {0.5}, int8 zero = {0}> {
            q = QuantizeLinear (x, scale, zero)
            y = DequantizeLinear (q, scale, zero)
        }""",
        feeds={"x": np.arange(-12, 12).reshape(1, 4, 6) / 4}, ios=(16, 17)),
    *(
        Case(f"rounded twice, by 0.03 and {scale}, {dtype}",
            f"""g (float[n, 4, 6] x) => (y)
                <float scale = {{0.03}}, int8 zero = {{0}}, int64[2] shape = {{-1, 24}}, float scale1 = {{{scale}}},
                {dtype} zero1 = {{0}}> {{
                q = QuantizeLinear (x, scale, zero)
                d = DequantizeLinear (q, scale, zero)
                r = Reshape (d, shape)
                e = QuantizeLinear (r, scale1, zero1)
                y = DequantizeLinear (e, scale1, zero1)
            }}""",
            sizes={"n": 2}, ranges={"x": (-3, 3)},
            coreml=Only("quantize", "dequantize", "reshape", "quantize", "dequantize"), tol={"tflite": 0.0501})
        for scale, dtype in ((0.05, "int8"), (0.03, "uint8"))
    ),
    *(
        Case(f"a pair that undoes itself, of int8 and {dtype}",
            f"""g (float[n, 4, 6] x) => (y) <float scale = {{0.03}}, int8 zero = {{0}}, {dtype} zero1 = {{0}}> {{
                q = QuantizeLinear (x, scale, zero)
                d = DequantizeLinear (q, scale, zero)
                e = QuantizeLinear (d, scale, zero1)
                y = DequantizeLinear (e, scale, zero1)
            }}""",
            sizes={"n": 2}, ranges={"x": (-3, 3)}, coreml=Emits(quantize=count))
        for dtype, count in (("int8", 1), ("uint8", 2))
    ),
    *(
        Case(f"fed scales and zero points of {dtype}",
            f"""g (float[n, 4, 6] x, float[4] s, {dtype}[4] z) => (y1, y2) {{
                q = QuantizeLinear <axis = -2> (x, s, z)
                y1 = Identity (q)
                y2 = DequantizeLinear <axis = 1> (q, s, z)
            }}""",
            sizes={"n": 2}, feeds={"s": [0.03, 0.1, 0.2, 0.3], "z": [100, 0, 1, 127]}, ranges={"x": (-3, 3)})
        for dtype in ("int8", "uint8")
    ),
    Case("rounded scalar",
        """g (float x) => (y) <float scale = {0.03}, int8 zero = {3}> {
            q = QuantizeLinear (x, scale, zero)
            y = DequantizeLinear (q, scale, zero)
        }""",
        feeds={"x": 1.234}),
    Case("integers that other operators take",
        """g (float[n, 4, 6] x) => (y1, y2, y3) <float scale = {0.03}, int8 zero = {3}> {
            q = QuantizeLinear (x, scale, zero)
            y1 = Cast <to = 6> (q)
            y2 = Identity (q)
            t = Transpose <perm = [0, 2, 1]> (q)
            y3 = DequantizeLinear (t, scale, zero)
        }""",
        sizes={"n": 2}, ranges={"x": (-3, 3)}, ios=(16, 17)),
    Case("a bias of int32 is a float",
        """g (float[n, 8] a) => (y) <int32[8] b, float scale = {1e-9}> {
            c = DequantizeLinear (b, scale)
            y = Add (a, c)
        }""",
        sizes={"n": 3}, weights={"b": np.arange(-4, 4) << 26}, coreml=Only("add")),
    Case("a Conv of int8 on both sides",
        """g (float[n, 4, 5, 5] x) => (y)
            <int8[8, 4, 3, 3] w, float[8] s, int32[8] b, float scale = {0.02}, int8 zero = {0},
            float scale1 = {0.001}> {
            q = QuantizeLinear (x, scale, zero)
            d = DequantizeLinear (q, scale, zero)
            k = DequantizeLinear <axis = 0> (w, s)
            c = DequantizeLinear (b, scale1)
            y = Conv (d, k, c)
        }""",
        sizes={"n": 3}, weights={"s": np.linspace(0.01, 0.02, 8), "b": np.arange(8) * 1000},
        ranges={"x": (-3, 3), "w": (-127, 128)},
        coreml=Only("quantize", "dequantize", "constexpr_affine_dequantize", "conv"), tol=1e-4),
    Case("a Reshape and a Concat round anew",
        """g (float[2, 6] x, float[3, 4] x1) => (y)
            <float scale = {0.02}, int8 zero = {3}, int64[2] shape = {3, 4}, float scale1 = {0.05}> {
            q = QuantizeLinear (x, scale, zero)
            d = DequantizeLinear (q, scale, zero)
            r = Reshape (d, shape)
            q1 = QuantizeLinear (r, scale1, zero)
            d1 = DequantizeLinear (q1, scale1, zero)
            qc = QuantizeLinear (x1, scale, zero)
            dc = DequantizeLinear (qc, scale, zero)
            j = Concat <axis = 0> (d1, dc)
            q2 = QuantizeLinear (j, scale1, zero)
            y = DequantizeLinear (q2, scale1, zero)
        }""",
        tol=0.051),
    Case("a Sigmoid of another scale than its kernel's",
        """g (float[2, 6] x) => (y) <float scale = {0.02}, int8 zero = {3}> {
            q = QuantizeLinear (x, scale, zero)
            d = DequantizeLinear (q, scale, zero)
            a = Sigmoid (d)
            q1 = QuantizeLinear (a, scale, zero)
            y = DequantizeLinear (q1, scale, zero)
        }""",
        tol=0.0201),
    Case("integers that stand for two things",
        """g (float[2, 3] x) => (y1, y2) <float scale = {0.5}, int8 zero = {3}, float scale1 = {0.25}> {
            q = QuantizeLinear (x, scale, zero)
            y1 = DequantizeLinear (q, scale, zero)
            y2 = DequantizeLinear (q, scale1, zero)
        }"""),
    Case("a constant that stands for two things",
        """g (float[2, 8] x) => (y)
            <int8[8, 8] w, int32[8] b, float scale = {0.05}, int8 zero = {0}, float scale1 = {0.02},
            float scale2 = {0.001}, float scale3 = {0.1}, float scale4 = {0.002}> {
            q0 = QuantizeLinear (x, scale, zero)
            d0 = DequantizeLinear (q0, scale, zero)
            v = DequantizeLinear (w, scale1, zero)
            b0 = DequantizeLinear (b, scale2)
            m0 = Gemm (d0, v, b0)
            q1 = QuantizeLinear (m0, scale3, zero)
            d1 = DequantizeLinear (q1, scale3, zero)
            b1 = DequantizeLinear (b, scale4)
            m1 = Gemm (d1, v, b1)
            q2 = QuantizeLinear (m1, scale3, zero)
            y = DequantizeLinear (q2, scale3, zero)
        }""",
        ranges={"w": (-60, 60), "b": (-900, 900)},
        tflite=Only("QUANTIZE", "FULLY_CONNECTED", "FULLY_CONNECTED", "DEQUANTIZE"), tol=0.11),
    Case("weights with a zero point are computed in reals",
        """g (uint8[1, 3, 6, 6] x) => (y)
            <uint8[4, 3, 3, 3] w, float scale = {0.03}, uint8 zero = {100}, float scale1 = {0.02},
            uint8 zero1 = {90}, float scale2 = {0.3}, uint8 zero2 = {128}> {
            r = DequantizeLinear (x, scale, zero)
            v = DequantizeLinear (w, scale1, zero1)
            a = Conv (r, v)
            y = QuantizeLinear (a, scale2, zero2)
        }""",
        ranges={"x": (0, 256), "w": (0, 256)}, steps=True),
    Case("QLinearConv",
        """g (uint8[1, 3, 6, 6] x) => (y)
            <int8[4, 3, 3, 3] w, float scale = {0.03}, uint8 zero = {100},
            float[4] w_scale = {0.01, 0.02, 0.03, 0.04}, int8[4] w_zero_point = {0, 0, 0, 0},
            float scale1 = {0.4}, uint8 zero1 = {128}, int32[4] b = {1000, -2000, 0, 50}> {
            y = QLinearConv (x, scale, zero, w, w_scale, w_zero_point, scale1, zero1, b)
        }""",
        ranges={"x": (0, 256), "w": (-127, 128)}, tflite=Emits("CONV_2D", DEQUANTIZE=0), steps=True),
]
# fmt: on


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test(case: Case, target: str) -> None:
    check(case, target)
