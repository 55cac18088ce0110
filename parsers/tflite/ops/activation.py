"""Activation functions and normalizations."""

from __future__ import annotations

import onnx_ir

from parsers.tflite.context import Context, activation
from parsers.tflite.layout import channels_first, channels_last
from parsers.tflite.registry import lowers


@lowers("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "TANH")
def simple(ctx: Context) -> None:
    """Relu, Tanh or Clip."""
    ctx.set(0, activation(ctx, ctx.name, ctx.value(0)))


@lowers("LOGISTIC")
def logistic(ctx: Context) -> None:
    ctx.set(0, ctx.add("Sigmoid", ctx.value(0)))


@lowers("ELU")
def elu(ctx: Context) -> None:
    """Elu with alpha 1."""
    ctx.set(0, ctx.add("Elu", ctx.value(0)))


@lowers("LEAKY_RELU")
def leaky_relu(ctx: Context) -> None:
    ctx.set(0, ctx.add("LeakyRelu", ctx.value(0), alpha=float(ctx.option("alpha", 0.0))))


@lowers("PRELU")
def prelu(ctx: Context) -> None:
    """PRelu, whose slope broadcasts against the last dimensions as TFLite's does."""
    ctx.set(0, ctx.add("PRelu", ctx.value(0), ctx.value(1)))


@lowers("HARD_SWISH")
def hard_swish(ctx: Context) -> None:
    """HardSwish: x * relu6(x + 3) / 6."""
    ctx.set(0, ctx.add("HardSwish", ctx.value(0)))


@lowers("GELU")
def gelu(ctx: Context) -> None:
    """Gelu, by erf or by tanh."""
    approximate = "tanh" if ctx.option("approximate", False) else "none"
    ctx.set(0, ctx.add("Gelu", ctx.value(0), approximate=approximate))


@lowers("SOFTMAX", "LOG_SOFTMAX")
def softmax(ctx: Context) -> None:
    """Softmax over the last dimension of ``beta`` times the input."""
    value = ctx.value(0)
    beta = float(ctx.option("beta", 1.0)) if ctx.name == "SOFTMAX" else 1.0
    if beta != 1.0:
        value = ctx.add("Mul", value, ctx.number(beta))
    ctx.set(0, ctx.add("Softmax" if ctx.name == "SOFTMAX" else "LogSoftmax", value, axis=-1))


@lowers("L2_NORMALIZATION")
def l2_normalization(ctx: Context) -> None:
    """x / max(|x|, 1e-6) over the last dimension (kernel l2norm)."""
    value = ctx.value(0)
    norm = ctx.add("ReduceL2", value, ctx.ints([-1]), keepdims=1)
    result = ctx.add("Div", value, ctx.add("Max", norm, ctx.number(1e-6)))
    ctx.set(0, ctx.activate(result))


@lowers("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(ctx: Context) -> None:
    """LRN over the channels; ONNX divides alpha by the window's size, TFLite doesn't."""
    size = 2 * int(ctx.option("radius")) + 1
    value: onnx_ir.Value = channels_first(ctx, ctx.value(0))
    value = ctx.add(
        "LRN",
        value,
        size=size,
        alpha=float(ctx.option("alpha", 0.0)) * size,
        beta=float(ctx.option("beta", 0.0)),
        bias=float(ctx.option("bias", 0.0)),
    )
    ctx.set(0, channels_last(ctx, value))
