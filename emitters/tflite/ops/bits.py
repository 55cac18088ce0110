"""BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitShift.

LiteRT has BITWISE_XOR and RIGHT_SHIFT, on up to 32 bits. The rest follows from a + b:

    a + b = (a ^ b) + 2 (a & b)         a | b = (a ^ b) + (a & b)

computed on 16 bits at a time, so that nothing overflows. 64 bits are taken as pairs of 32.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.registry import lowers

_WIDE = (DataType.INT64, DataType.UINT64)
_NARROW = (DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16)


@lowers("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(context: Context, node: onnx_ir.Node) -> None:
    """See the module; all broadcast, over four axes of what the kernels see."""
    a, b = context.tensors(node)
    dtype = a.dtype
    a, b = _as_int32(context, a), _as_int32(context, b)
    if max(a.rank, b.rank) > 4 and a.shape != b.shape:
        raise Refused("BITWISE_XOR broadcasts up to four axes")
    made = build.binary(context, "BITWISE_XOR", a, b)
    if node.op_type != "BitwiseXor":
        both = _both(context, a, b)
        made = both if node.op_type == "BitwiseAnd" else build.binary(context, "ADD", made, both)
    context.give(node.outputs[0], _back(context, made, dtype))


@lowers("BitwiseNot")
def bitwise_not(context: Context, node: onnx_ir.Node) -> None:
    """-1 - x, in two's complement."""
    x = context.tensor(node.inputs[0])
    bits = _as_int32(context, x)
    made = build.binary(context, "SUB", build.scalar(context, -1, bits), bits)
    context.give(node.outputs[0], _back(context, made, x.dtype))


def _as_int32(context: Context, x: Tensor) -> Tensor:
    """The same bits, or those of a wider number, as int32; 64 bits as two in a last axis."""
    if x.dtype in _NARROW:
        return build.cast(context, x, DataType.INT32)
    if x.dtype == DataType.INT32:
        return x
    shape = (*x.shape, 2) if x.dtype in _WIDE else x.shape
    if x.data is not None:
        bits = np.ascontiguousarray(x.data).reshape(-1).view(np.int32)
        last = (2,) if x.dtype in _WIDE else ()
        return context.constant(bits.reshape(*x.data.shape, *last))
    return context.emit("BITCAST", [x], shape, DataType.INT32)


def _back(context: Context, bits: Tensor, dtype: DataType) -> Tensor:
    if dtype in _NARROW:
        return build.cast(context, bits, dtype)
    if dtype == DataType.INT32:
        return bits
    shape = bits.shape[:-1] if dtype in _WIDE else bits.shape
    return context.emit("BITCAST", [bits], shape, dtype)


def _both(context: Context, a: Tensor, b: Tensor) -> Tensor:
    """a & b of int32: of the upper halves, which have the sign, and of the lower ones."""
    sixteen = context.constant(np.asarray(16, np.int32))
    scale = context.constant(np.asarray(1 << 16, np.int32))
    upper = [build.binary(context, "RIGHT_SHIFT", tensor, sixteen) for tensor in (a, b)]
    lower = [
        build.binary(context, "SUB", tensor, build.binary(context, "MUL", high, scale))
        for tensor, high in zip((a, b), upper, strict=True)
    ]
    high, low = (_both_halves(context, *halves) for halves in (upper, lower))
    return build.binary(context, "ADD", build.binary(context, "MUL", high, scale), low)


def _both_halves(context: Context, a: Tensor, b: Tensor) -> Tensor:
    total = build.binary(context, "ADD", a, b)
    twice = build.binary(context, "SUB", total, build.binary(context, "BITWISE_XOR", a, b))
    return build.binary(context, "RIGHT_SHIFT", twice, context.constant(np.asarray(1, np.int32)))


@lowers("BitShift")
def bit_shift(context: Context, node: onnx_ir.Node) -> None:
    """RIGHT_SHIFT; to the left, MUL by a power of two, which GATHER looks up."""
    x, by = context.tensors(node)
    if x.dtype in _WIDE:
        raise Refused("a BitShift of 64 bits", "cast to uint32 in the model")
    if node.attributes["direction"].as_string() == "RIGHT":
        context.give(node.outputs[0], build.binary(context, "RIGHT_SHIFT", x, by))
        return
    powers = context.constant(np.asarray([1 << bit for bit in range(32)], np.int64))
    places = build.cast(context, build.cast(context, by, DataType.INT64), DataType.INT32)
    options = {"axis": 0, "batchDims": 0}
    factor = context.emit("GATHER", [powers, places], by.shape, DataType.INT64, options=options)
    made = build.binary(context, "MUL", build.cast(context, x, DataType.INT64), factor)
    context.give(node.outputs[0], build.cast(context, made, x.dtype))
