"""Division that rounds: of integers as such, of floats as Python's ``//``.

div(20000001, 2, rounding_mode="floor")   10000000; by way of float32 it would be 10000001
div(1.0, 0.1, rounding_mode="floor")      9.0, for 0.1 is a bit more than that
"""

from __future__ import annotations

import math
from typing import Any

import onnx_ir
from onnxscript.onnx_opset import opset18 as op

from .values import scalar


def _div(self: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor"""
    divisor = scalar(other, self) if isinstance(other, (int, float)) else other
    whole = self.dtype.is_integer()
    if rounding_mode is None:
        kind = int(onnx_ir.DataType.FLOAT)
        pair = (op.Cast(each, to=kind) for each in (self, divisor)) if whole else (self, divisor)
        return op.Div(*pair)
    if rounding_mode == "floor":
        return _floor_divide(self, other)
    result = op.Div(self, divisor)
    return result if whole else op.Mul(op.Floor(op.Abs(result)), op.Sign(result))


def _floor_divide(self: Any, other: Any) -> Any:
    """floor_divide(Tensor self, Tensor other) -> Tensor"""
    divisor = scalar(other, self) if isinstance(other, (int, float)) else other
    if self.dtype.is_integer():
        # Mod has the divisor's sign, as in Python
        return op.Div(op.Sub(self, op.Mod(self, divisor)), divisor)
    if isinstance(other, (int, float)) and math.frexp(other)[0] in (0.5, -0.5):
        return op.Floor(op.Div(self, divisor))
    return _python_floor(self, divisor)


def _python_floor(self: Any, divisor: Any) -> Any:
    """ATen's ``div_floor_floating``."""
    zero = scalar(0, self)
    rest = op.Mod(self, divisor, fmod=1)
    quotient = op.Div(op.Sub(self, rest), divisor)
    below = op.And(
        op.Not(op.Equal(rest, zero)), op.Xor(op.Less(divisor, zero), op.Less(rest, zero))
    )
    quotient = op.Sub(quotient, op.CastLike(below, self))
    lower = op.Floor(quotient)
    up = op.Greater(op.Sub(quotient, lower), scalar(0.5, self))
    lower = op.Add(lower, op.CastLike(up, self))
    return op.Where(op.Equal(divisor, zero), op.Div(self, divisor), lower)


TABLE = {
    "aten.div.Tensor_mode": _div,
    "aten.div.Scalar_mode": _div,
    "aten.floor_divide.default": _floor_divide,
}
