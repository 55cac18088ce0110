"""Operators on each element alone."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir
from onnxscript.onnx_opset import opset18 as op

from .values import scalar


def _elu(self: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    """elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor; what is
    above 0 knows no input_scale"""
    result = op.Elu(self, alpha=float(alpha))
    if input_scale != 1:
        inner = op.Elu(op.Mul(self, scalar(input_scale, self)), alpha=float(alpha))
        result = op.Where(op.Greater(self, scalar(0, self)), self, inner)
    return result if scale == 1 else op.Mul(result, scalar(scale, self))


def _float(value: Any, like: Any) -> Any:
    """Whole numbers become float32, as ATen has them."""
    if like.dtype.is_floating_point():
        return value
    return op.Cast(value, to=int(onnx_ir.DataType.FLOAT))


def _atan2(self: Any, other: Any) -> Any:
    """atan2(Tensor self, Tensor other) -> Tensor: of (0, -1) it is pi, of (-0, -1) minus that"""
    y, x = _float(self, self), _float(other, other)
    if self.dtype.is_floating_point() or other.dtype.is_floating_point():
        kind = self.dtype if self.dtype.is_floating_point() else other.dtype
    else:
        kind = onnx_ir.DataType.FLOAT

    def number(value: float) -> Any:
        return op.Constant(value=onnx_ir.tensor(value, dtype=kind))

    zero, half = number(0), number(math.pi / 2)
    slope = op.Atan(op.Div(y, x))
    below = op.Less(op.Where(op.Equal(y, zero), op.Reciprocal(y), y), zero)
    turn = op.Where(below, number(-math.pi), number(math.pi))
    result = op.Where(op.Less(x, zero), op.Add(slope, turn), slope)
    return op.Where(op.Equal(x, zero), op.Mul(op.Sign(y), half), result)


def _angle(self: Any) -> Any:
    """angle(Tensor self) -> Tensor, of real numbers"""
    value = _float(self, self)
    kind = self.dtype if self.dtype.is_floating_point() else onnx_ir.DataType.FLOAT
    zero, pi = (op.Constant(value=onnx_ir.tensor(n, dtype=kind)) for n in (0.0, math.pi))
    angle = op.Where(op.Less(value, zero), pi, zero)
    return op.Where(op.IsNaN(value), value, angle)


def _rsub(self: Any, other: Any, alpha: float = 1) -> Any:
    """rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor: other - alpha * self"""
    if isinstance(other, float) or isinstance(alpha, float):
        self, kind = _float(self, self), self.dtype
        kind = kind if kind.is_floating_point() else onnx_ir.DataType.FLOAT
    else:
        kind = self.dtype

    def number(value: float) -> Any:
        return op.Constant(value=onnx_ir.tensor(value, dtype=kind))

    taken = self if alpha == 1 else op.Mul(self, number(alpha))
    return op.Sub(number(other), taken)


def _power(self: Any, exponent: Any) -> Any:
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor"""
    integers = self.dtype in _INTEGERS and exponent.dtype in _INTEGERS
    return _whole_power(self, exponent, self) if integers else op.Pow(self, exponent)


def _power_of(self: float, exponent: Any) -> Any:
    """pow.Scalar(Scalar self, Tensor exponent) -> Tensor"""
    if isinstance(self, int) and exponent.dtype in _INTEGERS:
        return _whole_power(scalar(self, exponent), exponent, exponent)
    like = exponent if exponent.dtype.is_floating_point() else _float(exponent, exponent)
    kind = exponent.dtype if like is exponent else onnx_ir.DataType.FLOAT
    return op.Pow(op.Constant(value=onnx_ir.tensor(float(self), dtype=kind)), like)


def _whole_power(base: Any, exponent: Any, like: Any) -> Any:
    """A power of integers: 0 where the exponent is negative and the base isn't 1 or -1."""
    unit = op.Equal(op.Abs(base), scalar(1, like))
    is_whole = op.Or(op.GreaterOrEqual(exponent, scalar(0, exponent)), unit)
    return op.Where(is_whole, op.Pow(base, op.Abs(exponent)), scalar(0, like))


_INTEGERS = (
    onnx_ir.DataType.INT8, onnx_ir.DataType.INT16, onnx_ir.DataType.INT32, onnx_ir.DataType.INT64,
)  # fmt: skip

TABLE = {
    "aten.angle.default": _angle,
    "aten.atan2.default": _atan2,
    "aten.elu.default": _elu,
    "aten.rsub.Scalar": _rsub,
    "aten.pow.Scalar": _power_of,
    "aten.pow.Tensor_Tensor": _power,
}
