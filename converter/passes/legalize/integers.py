"""Operators on quantized integers, as operators on real numbers.

1. QLinearMatMul, QLinearConv: the operator on real numbers between DQ and Q, as elsewhere.
2. ConvInteger: Conv of float32, in which whole numbers below 2^24 are exact; x is taken in two
   parts where sums may be larger.
3. DynamicQuantizeLinear: its formulas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import constant
from converter.passes.legalize.builder import Builder, DataType, Value

EXACT = 1 << 24
"""Whole numbers up to this one are exact in float32."""


def _real(b: Builder, index: int, axis: int) -> Value | None:
    """The real numbers of the integers at ``index``; scale and zero point are the next inputs."""
    stored, scale, zero = b.node.inputs[index : index + 3]
    if stored is None or stored.shape is None or scale is None:
        return None
    return b.op("DequantizeLinear", stored, scale, zero, axis=axis)


def qlinear_matmul(b: Builder, node: onnx_ir.Node) -> Value | None:
    one, other = _real(b, 0, -2), _real(b, 3, -1)
    if one is None or other is None:
        return None
    return b.op("QuantizeLinear", b.op("MatMul", one, other), *node.inputs[6:8])


def qlinear_conv(b: Builder, node: onnx_ir.Node) -> Value | None:
    """The bias is int32 of scale x * weights."""
    x, weights = _real(b, 0, 1), _real(b, 3, 0)
    first, second, bias = constant(node.inputs[1]), constant(node.inputs[4]), b.input(8)
    if x is None or weights is None or (bias is not None and (first is None or second is None)):
        return None
    if bias is not None and first is not None and second is not None:
        scale = np.asarray(first * second, np.float32)
        bias = b.op("DequantizeLinear", bias, scale, axis=0)
    made = b.op("Conv", x, weights, *([bias] if bias is not None else []), **_attributes(node))
    return b.op("QuantizeLinear", made, *node.inputs[6:8])


def conv_integer(b: Builder, node: onnx_ir.Node) -> Value | None:
    """Conv(x - x_zero_point, w - w_zero_point), its sums exact."""
    x, weights = node.inputs[0], b.constant(node.inputs[1])
    zero = b.constant(b.input(3))
    if x is None or weights is None or (b.input(3) is not None and zero is None):
        return None
    if zero is None:
        zero = np.zeros((), weights.dtype)
    zeros = zero.reshape(-1, *[1] * (weights.ndim - 1)).astype(np.int64)
    centred = weights.astype(np.int64) - zeros
    most = int(np.abs(centred).sum(axis=tuple(range(1, weights.ndim))).max(initial=0))
    real, point = b.cast(x, DataType.FLOAT), b.input(2)
    if point is not None:
        real = b.op("Sub", real, b.cast(point, DataType.FLOAT))
    kernel = b.value(centred.astype(np.float32))
    if most * 255 < EXACT:
        return _convolved(b, real, kernel)
    return _in_two_parts(b, real, kernel) if most * 16 < EXACT else None


def _convolved(b: Builder, x: Value, kernel: Value | None) -> Value:
    """In int32."""
    return b.cast(b.op("Conv", x, kernel, **_attributes(b.node)), DataType.INT32)


def _in_two_parts(b: Builder, x: Value, kernel: Value | None) -> Value:
    """x = 16 * high + low, with low of 0 to 15 and high of -16 to 15."""
    high = b.op("Floor", b.op("Mul", x, b.number(1 / 16, x)))
    low = b.op("Sub", x, b.op("Mul", high, b.number(16, x)))
    above, below = _convolved(b, high, kernel), _convolved(b, low, kernel)
    return b.op("Add", b.op("Mul", above, b.number(16, above)), below)


def dynamic_quantize_linear(b: Builder, node: onnx_ir.Node) -> tuple[Value, ...]:
    """scale = (max(0, x) - min(0, x)) / 255, but 1 where all are 0, as ONNX Runtime has it; zero
    point = round(-min(0, x) / scale)."""
    x = node.inputs[0]
    assert x is not None
    zero, one, levels = (b.number(n, x) for n in (0, 1, 255))
    least = b.op("Min", b.op("ReduceMin", x, keepdims=0), zero)
    most = b.op("Max", b.op("ReduceMax", x, keepdims=0), zero)
    reach = b.op("Sub", most, least)
    scale = b.op("Where", b.op("Equal", reach, zero), one, b.op("Div", reach, levels))
    point = b.op("Round", b.op("Div", b.op("Neg", least), scale))
    point = b.cast(point, DataType.UINT8)
    return b.op("QuantizeLinear", x, scale, point), scale, point


def _attributes(node: onnx_ir.Node) -> dict[str, Any]:
    return {name: attribute.value for name, attribute in node.attributes.items()}


REWRITES = {
    "ConvInteger": conv_integer,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
}
