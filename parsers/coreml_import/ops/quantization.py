"""quantize and dequantize, at run time."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml_import.operation import Operation
from parsers.coreml_import.reader import DataType, Reader
from parsers.coreml_import.registry import reads


@reads("quantize")
def quantize(reader: Reader, op: Operation) -> None:
    """QuantizeLinear: rounded to the nearest, halves to even, saturated."""
    x, scale = reader.value(op, "input"), reader.value(op, "scale")
    dtype = op.outputs[0].type.dtype or DataType.INT8
    zero = reader.optional(op, "zero_point") or _zeros(reader, scale, dtype)
    y = reader.node("QuantizeLinear", [x, scale, zero], _axis(reader, op), dtype)
    reader.give(op, y)


@reads("dequantize")
def dequantize(reader: Reader, op: Operation) -> None:
    """DequantizeLinear."""
    inputs = [reader.value(op, "input"), reader.value(op, "scale")]
    zero = reader.optional(op, "zero_point")
    if zero is not None:
        inputs.append(zero)
    reader.give(op, reader.node("DequantizeLinear", inputs, _axis(reader, op), inputs[1].dtype))


def _axis(reader: Reader, op: Operation) -> dict[str, int]:
    axis = reader.setting(op, "axis")
    return {} if axis is None else {"axis": axis}


def _zeros(reader: Reader, scale: onnx_ir.Value, dtype: DataType) -> onnx_ir.Value:
    assert scale.shape is not None
    return reader.const(np.zeros(tuple(scale.shape.numpy())), dtype.numpy())
