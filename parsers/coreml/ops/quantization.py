"""quantize and dequantize, at run time."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.registry import reads
from parsers.coreml.sizes import rank as rank_of


@reads("quantize")
def quantize(reader: Reader, op: Operation) -> None:
    """QuantizeLinear: rounded to the nearest, halves to even, saturated."""
    x, scale = reader.value(op, "input"), reader.value(op, "scale")
    dtype = op.outputs[0].type.dtype or DataType.INT8
    zero = _zero(reader, op, scale) or _zeros(reader, scale, dtype)
    y = reader.node("QuantizeLinear", [x, scale, zero], _axis(reader, op), dtype)
    reader.give(op, y)


@reads("dequantize")
def dequantize(reader: Reader, op: Operation) -> None:
    """DequantizeLinear. It always gets a zero point: without one, ONNX Runtime takes that of the
    QuantizeLinear before, however many numbers that has."""
    x, scale = reader.value(op, "input"), reader.value(op, "scale")
    zero = _zero(reader, op, scale) or _zeros(reader, scale, x.dtype or DataType.INT8)
    y = reader.node("DequantizeLinear", [x, scale, zero], _axis(reader, op), scale.dtype)
    reader.give(op, y)


def _zero(reader: Reader, op: Operation, scale: onnx_ir.Value) -> onnx_ir.Value | None:
    """The zero point, as many numbers as the scale: left out, coremltools writes a single 0."""
    zero = reader.optional(op, "zero_point")
    if zero is None or rank_of(zero) == rank_of(scale):
        return zero
    shape = reader.node("Shape", [scale], dtype=DataType.INT64)
    return reader.node("Expand", [zero, shape])


def _axis(reader: Reader, op: Operation) -> dict[str, int]:
    axis = reader.setting(op, "axis")
    return {} if axis is None else {"axis": axis}


def _zeros(reader: Reader, scale: onnx_ir.Value, dtype: DataType) -> onnx_ir.Value:
    assert scale.shape is not None
    return reader.const(np.zeros(tuple(scale.shape.numpy())), dtype.numpy())
