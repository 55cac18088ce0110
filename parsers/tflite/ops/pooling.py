"""Pooling over height and width."""

from __future__ import annotations

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.layout import Window, channels_first, channels_last, padding
from parsers.tflite.registry import lowers


def _pool(ctx: Context, op_type: str, value: onnx_ir.Value) -> onnx_ir.Value:
    kernel = (ctx.option("filterHeight", 1), ctx.option("filterWidth", 1))
    strides = (ctx.option("strideH", 1), ctx.option("strideW", 1))
    pads = padding(ctx, Window(kernel, strides, (1, 1)), ctx.shape(0)[1:3])
    value = channels_first(ctx, value)
    return ctx.add(op_type, value, kernel_shape=list(kernel), strides=list(strides), **pads)


@lowers("AVERAGE_POOL_2D")
def average_pool(ctx: Context) -> None:
    """AveragePool; padding isn't counted in either (``count_include_pad`` is 0)."""
    value = ctx.activate(_pool(ctx, "AveragePool", ctx.value(0)))
    ctx.set(0, channels_last(ctx, value))


@lowers("MAX_POOL_2D")
def max_pool(ctx: Context) -> None:
    """MaxPool, of the stored integers where there is no activation and one scale."""
    if ctx.option("fusedActivationFunction"):
        value = ctx.activate(_pool(ctx, "MaxPool", ctx.value(0)))
        ctx.set(0, channels_last(ctx, value))
        return
    (value,) = ctx.moved(0, ranked=True)
    ctx.set_moved(0, channels_last(ctx, _pool(ctx, "MaxPool", value)))


@lowers("L2_POOL_2D")
def l2_pool(ctx: Context) -> None:
    """The root of the mean of the squares."""
    value = ctx.value(0)
    mean = _pool(ctx, "AveragePool", ctx.add("Mul", value, value))
    ctx.set(0, channels_last(ctx, ctx.activate(ctx.add("Sqrt", mean))))
