"""QuantizeLinear and DequantizeLinear that aren't part of an operator in integers."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int
from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import Array, DataType, Quant, Tensor
from emitters.tflite.quantized import quant_of
from emitters.tflite.registry import lowers

_PIECE = 1 << 16
"""Elements that are made real at a time."""

_EIGHT = (DataType.INT8, DataType.UINT8)
_WHOLE = (*_EIGHT, DataType.INT16, DataType.UINT16)
"""Types that float32 holds every number of."""


@lowers("QuantizeLinear")
def quantize(context: Context, node: onnx_ir.Node) -> None:
    """QUANTIZE, which takes one constant scale; otherwise round(x / scale) + zero point, clipped.

    The kernel rounds halves away from 0 where ONNX rounds them to even: a step, where a number
    lies just between two.
    """
    x, output = context.tensor(node.inputs[0]), node.outputs[0]
    quant, dtype = quant_of(node), context.dtype(output)
    if quant is not None and _has_kernel(dtype, quant):
        x = build.cast(context, x, DataType.FLOAT)
        context.give(output, context.emit("QUANTIZE", [x], x.shape, dtype, quant=quant))
        return
    _require_whole(node, dtype)
    scale, zero = _settings(context, node, x)
    ratio = build.binary(context, "DIV", build.cast(context, x, DataType.FLOAT), scale)
    made = build.unary(context, "ROUND", ratio)
    if zero is not None:
        made = build.binary(context, "ADD", made, zero)
    info = np.iinfo(dtype.numpy())
    for op, limit in (("MAXIMUM", info.min), ("MINIMUM", info.max)):
        made = build.binary(context, op, made, build.scalar(context, limit, made))
    context.give(output, build.cast(context, made, dtype))


@lowers("DequantizeLinear")
def dequantize(context: Context, node: onnx_ir.Node) -> None:
    """DEQUANTIZE, which takes one constant scale; of a constant, the real numbers themselves;
    otherwise (x - zero point) * scale."""
    quant, output = quant_of(node), node.outputs[0]
    stored = context.array(node.inputs[0])
    if stored is not None and quant is not None:
        real = dequantized(stored, quant)
        context.give(output, context.constant(real, output.name or ""))
        return
    x = context.tensor(node.inputs[0])
    if quant is not None and _has_kernel(x.dtype, quant) and _stands_for(x, quant):
        context.give(output, context.emit("DEQUANTIZE", [x], x.shape, DataType.FLOAT))
        return
    if x.dtype != DataType.INT32:
        _require_whole(node, x.dtype)
    scale, zero = _settings(context, node, x)
    made = build.cast(context, x, DataType.FLOAT)
    if zero is not None:
        made = build.binary(context, "SUB", made, zero)
    context.give(output, build.binary(context, "MUL", made, scale))


def _has_kernel(dtype: DataType, quant: Quant) -> bool:
    """Whether LiteRT's two kernels take a type with these scales: those of int16 no zero point."""
    if quant.axis is not None:
        return False
    return dtype in _EIGHT or (dtype == DataType.INT16 and not np.any(quant.zero_point))


def _stands_for(x: Tensor, quant: Quant) -> bool:
    """Whether a tensor's own scales are these; one that has none gets them."""
    if x.quant is None:
        x.quant = quant
    return x.quant.same(quant)


def _require_whole(node: onnx_ir.Node, dtype: DataType) -> None:
    if dtype not in _WHOLE:
        raise Refused(f"a {node.op_type} of {dtype.name.lower()}", "use int8, uint8 or int16")


def _settings(context: Context, node: onnx_ir.Node, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Scale and zero point in float32, shaped so that they broadcast to ``x``."""
    if attribute_int(node, "block_size", 0):
        raise Refused(f"a {node.op_type} with a scale for each block", "use one for each channel")
    scale, zero = context.tensor(node.inputs[1]), context.optional(node, 2)
    shape: tuple[int, ...] = ()
    if scale.rank == 1 and scale.shape != (1,):
        axis = (attribute_int(node, "axis", 1) or 0) % max(x.rank, 1)
        size = scale.shape[0]
        if not isinstance(size, int):
            raise Refused("an unknown number of scales", "make them constants")
        shape = tuple(size if place == axis else 1 for place in range(x.rank))
    made = build.reshape(context, build.cast(context, scale, DataType.FLOAT), shape)
    if zero is None:
        return made, None
    return made, build.reshape(context, build.cast(context, zero, DataType.FLOAT), shape)


def dequantized(stored: Array, quant: Quant) -> Array:
    """Real numbers of a constant, in float32."""
    shape = [1] * stored.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    scale, zero = quant.scale.reshape(shape), quant.zero_point.reshape(shape)
    if quant.axis is None:
        scale, zero = quant.scale[0], quant.zero_point[0]
    if stored.ndim == 0 or stored.size <= _PIECE:
        return ((stored.astype(np.int64) - zero) * scale).astype(np.float32)
    made = np.empty_like(stored, np.float32)
    rows = max(_PIECE * len(stored) // stored.size, 1)
    apart = quant.axis == 0
    for at in range(0, len(stored), rows):  # as a whole it takes several times as much as it gives
        part = slice(at, at + rows)
        ours = (zero[part], scale[part]) if apart else (zero, scale)
        made[part] = (stored[part].astype(np.int64) - ours[0]) * ours[1]
    return made
