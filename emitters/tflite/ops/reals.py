"""Integers with scales as the real numbers they stand for, and back: for what no kernel computes
in integers. The result is what Q and DQ around the operator say, to the last step."""

from __future__ import annotations

import numpy as np

from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Quant, Tensor
from emitters.tflite.ops.quantization import dequantized


def real(context: Context, x: Tensor) -> Tensor:
    """``x`` in float32."""
    if x.quant is None:
        return x
    if x.data is not None:
        return context.constant(dequantized(x.data, x.quant), x.name)
    if x.dtype != DataType.INT32:
        return context.emit("DEQUANTIZE", [x], x.shape, DataType.FLOAT)
    scale, zero = x.quant.scale[0], x.quant.zero_point[0]  # DEQUANTIZE takes no int32
    number = build.cast(context, x, DataType.FLOAT)
    centred = build.binary(context, "SUB", number, build.scalar(context, float(zero), number))
    return build.binary(context, "MUL", centred, build.scalar(context, float(scale), number))


def stored(context: Context, x: Tensor, dtype: DataType, quant: Quant | None) -> Tensor:
    """A tensor as integers of other scales.

    LiteRT's QUANTIZE from one scale to a larger one rounds twice, and is a step off for up to a
    quarter of the numbers: that goes by way of the reals.

    Args:
        context: Where it goes.
        x: The tensor.
        dtype: The integers' type.
        quant: Their scales; None leaves ``x`` as it is.
    """
    if quant is None or (x.dtype == dtype and quant.same(x.quant)):
        return x
    if x.quant is not None and not np.array_equal(x.quant.scale, quant.scale):
        x = real(context, x)
    return context.emit("QUANTIZE", [x], x.shape, dtype, quant=quant)


def signed(context: Context, x: Tensor) -> Tensor:
    """uint8 as int8 with the same scales, the zero point moved by 128: the type of LiteRT's newer
    kernels, with a scale for each channel."""
    if x.quant is None or x.dtype != DataType.UINT8:
        return x
    quant = Quant(x.quant.scale, x.quant.zero_point - 128, x.quant.axis)
    if x.data is not None:
        shifted = (x.data.astype(np.int16) - 128).astype(np.int8)
        return context.constant(shifted, x.name, quant=quant)
    return context.emit("QUANTIZE", [x], x.shape, DataType.INT8, quant=quant)
