"""Operators on each element alone."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir
from onnxscript.onnx_opset import opset18 as op

from .values import scalar, whole


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
    """pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor; of integers, 0 where the exponent
    is negative and the base isn't 1 or -1"""
    kinds = {self.dtype, exponent.dtype}
    if any(kind.is_floating_point() or kind == onnx_ir.DataType.BOOL for kind in kinds):
        return op.Pow(self, exponent)
    power = op.Pow(self, op.Abs(exponent))
    unit = op.Equal(op.Abs(self), scalar(1, self))
    is_whole = op.Or(op.GreaterOrEqual(exponent, scalar(0, exponent)), unit)
    return op.Where(is_whole, power, scalar(0, self))


def _power_of(self: float, exponent: Any) -> Any:
    """pow.Scalar(Scalar self, Tensor exponent) -> Tensor"""
    integers = isinstance(self, int) and not exponent.dtype.is_floating_point()
    kind = (
        exponent.dtype if integers or exponent.dtype.is_floating_point() else onnx_ir.DataType.FLOAT
    )
    return _power(op.Constant(value=onnx_ir.tensor(self, dtype=kind)), exponent)


def _one_hot(self: Any, num_classes: int = -1) -> Any:
    """one_hot(Tensor self, int num_classes=-1) -> Tensor; -1 stands for the largest one and 1"""
    depth = op.Constant(value=onnx_ir.tensor([num_classes], dtype=onnx_ir.DataType.INT64))
    if num_classes < 0:
        depth = op.Add(op.Reshape(op.ReduceMax(self, keepdims=0), whole([1])), whole([1]))
    return op.OneHot(self, depth, whole([0, 1]), axis=-1)


TABLE = {
    "aten.angle.default": _angle,
    "aten.atan2.default": _atan2,
    "aten.elu.default": _elu,
    "aten.rsub.Scalar": _rsub,
    "aten.one_hot.default": _one_hot,
    "aten.pow.Scalar": _power_of,
    "aten.pow.Tensor_Tensor": _power,
}
