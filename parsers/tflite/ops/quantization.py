"""Between stored integers and real numbers: QUANTIZE, DEQUANTIZE, FAKE_QUANT, DENSIFY."""

from __future__ import annotations

from dataclasses import replace

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.registry import lowers


@lowers("DENSIFY")
def densify(ctx: Context) -> None:
    """Nothing: sparse constants are read dense."""
    constant = ctx.known(0)
    if constant is None:
        ctx.refuse("a sparse tensor that isn't constant")
    ctx.set_constant(0, constant)


@lowers("DEQUANTIZE")
def dequantize(ctx: Context) -> None:
    """What it stands for: DequantizeLinear, or Cast of half precision. A constant stays one, so
    that weights can be laid out differently as they are stored."""
    constant = ctx.known(0)
    if constant is not None:
        ctx.set_constant(0, replace(constant, folded=True))
    elif ctx.dtype(0) == onnx_ir.DataType.FLOAT16:
        ctx.set(0, ctx.cast(ctx.value(0), onnx_ir.DataType.FLOAT))
    else:
        ctx.set(0, ctx.value(0))


@lowers("QUANTIZE")
def quantize(ctx: Context) -> None:
    """QuantizeLinear; from one scale to another through real numbers."""
    ctx.set(0, ctx.value(0))


@lowers("FAKE_QUANT")
def fake_quant(ctx: Context) -> None:
    """Rounds to the levels between min and max, moved so that zero is one of them (kernel
    reference_ops::FakeQuant, nudged as in TensorFlow's fake_quant_ops_functor.h)."""
    low, high = float(ctx.option("min", 0.0)), float(ctx.option("max", 0.0))
    lowest = 1 if ctx.option("narrowRange", False) else 0
    highest = (1 << int(ctx.option("numBits", 8))) - 1
    if not high > low:
        ctx.refuse(f"a range from {low} to {high}")
    scale = (high - low) / (highest - lowest)
    zero = min(max(round(lowest - low / scale), lowest), highest)
    ends = ctx.number((lowest - zero) * scale), ctx.number((highest - zero) * scale)
    clipped = ctx.add("Clip", ctx.value(0), *ends)
    above = ctx.add("Div", ctx.add("Sub", clipped, ends[0]), ctx.number(scale))
    # half a level goes up, not to the even one
    level = ctx.add("Floor", ctx.add("Add", above, ctx.number(0.5)))
    ctx.set(0, ctx.add("Add", ctx.add("Mul", level, ctx.number(scale)), ends[0]))
