"""What LiteRT's int8 kernels of matrix products take; anything else is computed in float32, between
a DEQUANTIZE and a QUANTIZE."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Quant, Tensor
from emitters.tflite.ops.reals import signed

Scales = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

EIGHT = (DataType.INT8, DataType.UINT8)
TAKEN = (*EIGHT, DataType.INT16)


def layer(
    context: Context, x: Tensor, weights: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """The operands of an int8 FULLY_CONNECTED; None where its kernel doesn't take them.

    It takes int8 of one scale, constant weights with zero points of 0 and a scale for each
    output, and an int32 bias of scale x * weights. uint8 is moved by 128. Beside int16 of a zero
    point 0 the bias is int64.

    Args:
        context: Where it goes.
        x: [..., I].
        weights: [O, I].
        bias: [O]; None: zeros are made.
    """
    if not _of_one_scale(x) or weights.data is None or weights.quant is None:
        return None
    x, weights = signed(context, x), signed(context, weights)
    assert x.quant is not None and weights.quant is not None
    if weights.dtype != DataType.INT8 or weights.quant.axis not in (None, 0):
        return None
    if np.any(weights.quant.zero_point != 0):
        return None
    scale = (x.quant.scale[0] * weights.quant.scale).astype(np.float32)
    if bias is None:
        zeros = np.zeros(int(weights.shape[0]), accumulated_in(x))
        quant = Quant(scale, np.zeros(scale.shape, np.int64), 0 if scale.size > 1 else None)
        return x, weights, context.constant(zeros, f"{context.node}_bias", quant=quant)
    if x.dtype == DataType.INT16:
        wide = as_wide(context, bias, scale)
        return None if wide is None else (x, weights, wide)
    return (x, weights, bias) if _starts(bias, scale) else None


def accumulated_in(x: Tensor) -> type[np.int32] | type[np.int64]:
    """The type that kernels sum products of ``x`` and int8 in, and want a bias in."""
    return np.int64 if x.dtype == DataType.INT16 else np.int32


def as_wide(context: Context, bias: Tensor, scale: Scales) -> Tensor | None:
    """A constant bias of real numbers as int64; None where it is no such.

    Args:
        context: Where it goes.
        bias: [O], float32.
        scale: [O] or [1]: scale of x times scales of the weights.
    """
    if bias.data is None or bias.quant is not None or bias.dtype != DataType.FLOAT:
        return None
    whole = np.rint(bias.data.astype(np.float64) / scale).astype(np.int64)
    quant = Quant(scale, np.zeros(scale.shape, np.int64), 0 if scale.size > 1 else None)
    return context.constant(whole, f"{bias.name}_int64", quant=quant)


def _of_one_scale(x: Tensor) -> bool:
    if x.quant is None or x.quant.axis is not None or x.dtype not in TAKEN:
        return False
    return x.dtype != DataType.INT16 or not np.any(x.quant.zero_point)


def _starts(bias: Tensor, scale: Scales) -> bool:
    """Whether an int32 accumulator can start with a bias."""
    return (
        bias.quant is not None
        and bias.dtype == DataType.INT32
        and not np.any(bias.quant.zero_point)
        and np.allclose(bias.quant.scale, scale, rtol=1e-3, atol=0)
    )


def pair(context: Context, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor] | None:
    """The operands of an int8 BATCH_MATMUL; None where its kernel doesn't take them.

    Args:
        context: Where it goes.
        a: [..., I, K].
        b: [..., K, O].
    """
    if not _of_one_scale(a) or not _of_one_scale(b):
        return None
    if (a.dtype == DataType.INT16) != (b.dtype == DataType.INT16):
        return None
    return signed(context, a), signed(context, b)


def int8_of(output: onnx_ir.Value) -> Quant | None:
    """An output's scales as int8 has them, which uint8 is computed in; None where it is real."""
    quant: Quant | None = output.meta.get(QUANT)
    if quant is None or output.dtype != DataType.UINT8:
        return quant
    return Quant(quant.scale, quant.zero_point - 128)
