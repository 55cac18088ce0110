"""Arithmetic and unary functions, element by element, with broadcasting as in ONNX."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.registry import lowers

_NARROW = frozenset(
    onnx_ir.DataType[name] for name in ("INT8", "INT16", "UINT8", "UINT16", "UINT32", "UINT64")
)
INTEGERS = _NARROW | {onnx_ir.DataType.INT32, onnx_ir.DataType.INT64}

_BINARY = {"ADD": "Add", "SUB": "Sub", "MUL": "Mul", "MAXIMUM": "Max", "MINIMUM": "Min"}
_BINARY |= {"DIV": "Div", "POW": "Pow"}
_UNARY = {"ABS": "Abs", "NEG": "Neg", "EXP": "Exp", "LOG": "Log", "SQRT": "Sqrt", "SIN": "Sin"}
_UNARY |= {"COS": "Cos", "FLOOR": "Floor", "CEIL": "Ceil", "ROUND": "Round", "SIGN": "Sign"}


def operand(ctx: Context, i: int) -> onnx_ir.Value:
    """Input ``i`` in real numbers; integers narrower than 32 bits widened, since ONNX Runtime
    has few kernels for them."""
    value = ctx.value(i)
    return ctx.cast(value, onnx_ir.DataType.INT32) if ctx.dtype(i) in _NARROW else value


def set_result(ctx: Context, value: onnx_ir.Value) -> None:
    """The output, out of what was computed from :func:`operand`."""
    dtype = ctx.output_dtype()
    ctx.set(0, ctx.cast(value, dtype) if dtype in _NARROW else value)


@lowers(*_BINARY)
def binary(ctx: Context) -> None:
    """One ONNX operator. DIV of integers drops the fraction in both."""
    value = ctx.add(_BINARY[ctx.name], operand(ctx, 0), operand(ctx, 1))
    set_result(ctx, ctx.activate(value))


@lowers(*_UNARY)
def unary(ctx: Context) -> None:
    """One ONNX operator. ROUND goes to the even neighbour in both."""
    set_result(ctx, ctx.add(_UNARY[ctx.name], operand(ctx, 0)))


@lowers("RSQRT")
def rsqrt(ctx: Context) -> None:
    ctx.set(0, ctx.add("Reciprocal", ctx.add("Sqrt", ctx.value(0))))


@lowers("SQUARE")
def square(ctx: Context) -> None:
    value = operand(ctx, 0)
    set_result(ctx, ctx.add("Mul", value, value))


@lowers("SQUARED_DIFFERENCE")
def squared_difference(ctx: Context) -> None:
    """The product of a difference with itself."""
    value = ctx.add("Sub", operand(ctx, 0), operand(ctx, 1))
    set_result(ctx, ctx.add("Mul", value, value))


@lowers("ADD_N")
def add_n(ctx: Context) -> None:
    """A chain of Add: ONNX Runtime's Sum takes no integers."""
    value = operand(ctx, 0)
    for i in range(1, ctx.n_inputs):
        value = ctx.add("Add", value, operand(ctx, i))
    set_result(ctx, value)


@lowers("FLOOR_DIV")
def floor_div(ctx: Context) -> None:
    """Floor of the quotient; of integers, by taking the remainder off first."""
    x, y = operand(ctx, 0), operand(ctx, 1)
    if ctx.dtype(0) in INTEGERS:
        set_result(ctx, _integer_floor_div(ctx, x, y))
    else:
        ctx.set(0, ctx.add("Floor", ctx.add("Div", x, y)))


def _integer_floor_div(ctx: Context, x: onnx_ir.Value, y: onnx_ir.Value) -> onnx_ir.Value:
    # ONNX's Mod of integers has the divisor's sign, so the rest divides without a fraction.
    return ctx.add("Div", ctx.add("Sub", x, ctx.add("Mod", x, y)), y)


@lowers("FLOOR_MOD")
def floor_mod(ctx: Context) -> None:
    """The remainder with the divisor's sign. ONNX's Mod has that for integers; for floats it has
    the dividend's (fmod=1), and the divisor is added where the signs differ."""
    x, y = operand(ctx, 0), operand(ctx, 1)
    if ctx.dtype(0) in INTEGERS:
        set_result(ctx, ctx.add("Mod", x, y))
        return
    rest, zero = ctx.add("Mod", x, y, fmod=1), ctx.number(0)
    signs = ctx.add("Xor", ctx.add("Less", rest, zero), ctx.add("Less", y, zero))
    nonzero = ctx.add("Not", ctx.add("Equal", rest, zero))
    wrong = ctx.add("And", signs, nonzero)
    ctx.set(0, ctx.add("Where", wrong, ctx.add("Add", rest, y), rest))


@lowers("ATAN2")
def atan2(ctx: Context) -> None:
    """Atan of the quotient, moved to the other half plane where x is negative."""
    y, x = ctx.value(0), ctx.value(1)
    zero, half = ctx.number(0), ctx.number(math.pi)
    angle = ctx.add("Atan", ctx.add("Div", y, x))
    below = ctx.add("Where", ctx.add("Less", y, zero), ctx.add("Neg", half), half)
    turned = ctx.add("Add", angle, below)
    angle = ctx.add("Where", ctx.add("Less", x, zero), turned, angle)
    origin = ctx.add("And", ctx.add("Equal", x, zero), ctx.add("Equal", y, zero))
    ctx.set(0, ctx.add("Where", origin, zero, angle))


@lowers("BITWISE_XOR")
def bitwise_xor(ctx: Context) -> None:
    """BitwiseXor, or Xor of bools."""
    is_bool = ctx.dtype(0) == onnx_ir.DataType.BOOL
    ctx.set(0, ctx.add("Xor" if is_bool else "BitwiseXor", ctx.raw(0), ctx.raw(1)))


@lowers("RIGHT_SHIFT")
def right_shift(ctx: Context) -> None:
    """Division by a power of two, rounded down, which shifting with the sign is: BitShift has
    no signed types."""
    x, shift = operand(ctx, 0), operand(ctx, 1)
    if ctx.dtype(0) in (onnx_ir.DataType.INT64, onnx_ir.DataType.UINT64):
        ctx.refuse("shifts of 64-bit integers")
    # in 64 bits, so that a shift by 31 is a positive divisor
    wide = [ctx.cast(value, onnx_ir.DataType.INT64) for value in (x, shift)]
    divisor = ctx.add("Pow", ctx.const(np.array(2, np.int64)), wide[1])
    result = _integer_floor_div(ctx, wide[0], divisor)
    ctx.set(0, ctx.cast(result, ctx.output_dtype()))


@lowers("CAST")
def cast(ctx: Context) -> None:
    """Cast; floats drop the fraction on their way to integers in both."""
    ctx.set(0, ctx.cast(ctx.value(0), ctx.output_dtype()))


@lowers("ZEROS_LIKE")
def zeros_like(ctx: Context) -> None:
    dtype = ctx.output_dtype()
    zero = onnx_ir.tensor([0], dtype=dtype)
    ctx.set(0, ctx.add("ConstantOfShape", ctx.add("Shape", ctx.raw(0)), value=zero))
