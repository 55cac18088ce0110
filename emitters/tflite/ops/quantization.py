"""QuantizeLinear and DequantizeLinear that aren't part of an operator in integers."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.tflite.context import Context
from emitters.tflite.graph import Array, DataType, Quant, Tensor
from emitters.tflite.quantized import quant_of
from emitters.tflite.registry import Refused, lowers


@lowers("QuantizeLinear")
def quantize(context: Context, node: onnx_ir.Node) -> None:
    """QUANTIZE; of integers with another scale too."""
    x, output = context.tensor(node.inputs[0]), node.outputs[0]
    quant = _needed(node)
    context.give(output, context.emit("QUANTIZE", [x], x.shape, output.dtype, quant=quant))


@lowers("DequantizeLinear")
def dequantize(context: Context, node: onnx_ir.Node) -> None:
    """DEQUANTIZE; of a constant, the real numbers themselves."""
    quant = _needed(node)
    stored = context.array(node.inputs[0])
    if stored is not None:
        real = dequantized(stored, quant)
        context.give(node.outputs[0], context.constant(real, node.outputs[0].name or ""))
        return
    x = context.tensor(node.inputs[0])
    if x.quant is None:
        x = _as(context, x, quant)
    context.give(node.outputs[0], context.emit("DEQUANTIZE", [x], x.shape, DataType.FLOAT))


def _needed(node: onnx_ir.Node) -> Quant:
    quant = quant_of(node)
    if quant is None:
        raise Refused("its scale has to be constant, and one for the tensor or one an index")
    return quant


def _as(context: Context, x: Tensor, quant: Quant) -> Tensor:
    """``x``, said to stand for real numbers by ``quant``: integers that arithmetic made."""
    if x.quant is None and not x.is_constant:
        x.quant = quant
    return x


def dequantized(stored: Array, quant: Quant) -> Array:
    """Real numbers of a constant, in float32."""
    shape = [1] * stored.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    scale, zero = quant.scale.reshape(shape), quant.zero_point.reshape(shape)
    if quant.axis is None:
        scale, zero = quant.scale[0], quant.zero_point[0]
    return ((stored.astype(np.int64) - zero) * scale).astype(np.float32)
