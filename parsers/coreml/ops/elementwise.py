"""Operations element by element, on one operand and on two (``elementwise_unary``, ``_binary``)."""

from __future__ import annotations

import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads

BOOL = onnx_ir.DataType.BOOL

_ONE = {
    "abs": "Abs",
    "acos": "Acos",
    "asin": "Asin",
    "atan": "Atan",
    "atanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "identity": "Identity",
    "logical_not": "Not",
    "round": "Round",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
_TWO = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "maximum": "Max",
    "minimum": "Min",
    "pow": "Pow",
}
_LOGICAL = {
    "equal": "Equal",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
}


@reads(*_ONE)
def one(reader: Reader, op: Operation) -> None:
    """ONNX's operator of the same meaning."""
    reader.give(op, reader.node(_ONE[op.type], [reader.value(op, "x")]))


@reads(*_TWO)
def two(reader: Reader, op: Operation) -> None:
    """ONNX's operator of the same meaning; both broadcast alike."""
    reader.give(op, reader.node(_TWO[op.type], [reader.value(op, "x"), reader.value(op, "y")]))


@reads(*_LOGICAL)
def logical(reader: Reader, op: Operation) -> None:
    """ONNX's operator of the same meaning, which gives truth values."""
    x, y = reader.value(op, "x"), reader.value(op, "y")
    reader.give(op, reader.node(_LOGICAL[op.type], [x, y], dtype=BOOL))


@reads("not_equal")
def not_equal(reader: Reader, op: Operation) -> None:
    equal = reader.node("Equal", [reader.value(op, "x"), reader.value(op, "y")], dtype=BOOL)
    reader.give(op, reader.node("Not", [equal]))


@reads("real_div")
def real_div(reader: Reader, op: Operation) -> None:
    """Div; of integers, what the quotient is rounded to is documented nowhere."""
    x, y = reader.value(op, "x"), reader.value(op, "y")
    if _is_integer(x):
        raise Refusal("real_div of integers: its rounding isn't documented")
    reader.give(op, reader.node("Div", [x, y]))


@reads("floor_div")
def floor_div(reader: Reader, op: Operation) -> None:
    """The quotient rounded down; ONNX's of integers is rounded towards zero, one more where the
    remainder isn't zero and has another sign than the divisor."""
    x, y = reader.value(op, "x"), reader.value(op, "y")
    quotient = reader.node("Div", [x, y])
    if not _is_integer(x):
        reader.give(op, reader.node("Floor", [quotient]))
        return
    remainder = reader.node("Mod", [x, y], {"fmod": 1})
    below = _parts(reader, remainder, y)
    assert x.dtype is not None
    reader.give(op, reader.node("Sub", [quotient, reader.cast(below, x.dtype)]))


@reads("mod")
def mod(reader: Reader, op: Operation) -> None:
    """The remainder with the divisor's sign (Python's ``%``); ONNX's Mod is that for integers, of
    real numbers it has the dividend's sign."""
    x, y = reader.value(op, "x"), reader.value(op, "y")
    if _is_integer(x):
        reader.give(op, reader.node("Mod", [x, y]))
        return
    remainder = reader.node("Mod", [x, y], {"fmod": 1})
    shifted = reader.node("Add", [remainder, y])
    reader.give(op, _where(reader, _parts(reader, remainder, y), shifted, remainder))


def _parts(reader: Reader, remainder: onnx_ir.Value, divisor: onnx_ir.Value) -> onnx_ir.Value:
    """Where a remainder isn't zero and has another sign than the divisor."""
    zero = reader.number(0, remainder)
    below = reader.node("Less", [remainder, zero], dtype=BOOL)
    other = reader.node("Xor", [below, reader.node("Less", [divisor, zero], dtype=BOOL)])
    some = reader.node("Not", [reader.node("Equal", [remainder, zero], dtype=BOOL)])
    return reader.node("And", [some, other])


def _where(
    reader: Reader, condition: onnx_ir.Value, x: onnx_ir.Value, y: onnx_ir.Value
) -> onnx_ir.Value:
    return reader.node("Where", [condition, x, y], dtype=x.dtype)


@reads("square")
def square(reader: Reader, op: Operation) -> None:
    """x * x."""
    x = reader.value(op, "x")
    reader.give(op, reader.node("Mul", [x, x]))


@reads("exp2")
def exp2(reader: Reader, op: Operation) -> None:
    """Pow of 2."""
    x = reader.value(op, "x")
    reader.give(op, reader.node("Pow", [reader.number(2, x), x]))


@reads("inverse")
def inverse(reader: Reader, op: Operation) -> None:
    """1 / (x + epsilon)."""
    reader.give(op, reader.node("Reciprocal", [_plus_epsilon(reader, op, 1e-4)]))


@reads("log")
def log(reader: Reader, op: Operation) -> None:
    """log(x + epsilon); the epsilon that it has unless told is the smallest number there is."""
    reader.give(op, reader.node("Log", [_plus_epsilon(reader, op, 1e-45)]))


@reads("rsqrt")
def rsqrt(reader: Reader, op: Operation) -> None:
    """1 / sqrt(x + epsilon)."""
    root = reader.node("Sqrt", [_plus_epsilon(reader, op, 1e-12)])
    reader.give(op, reader.node("Reciprocal", [root]))


def _plus_epsilon(reader: Reader, op: Operation, default: float) -> onnx_ir.Value:
    """x + epsilon, in x's type: an epsilon that isn't there in float16 adds nothing."""
    x = reader.value(op, "x")
    epsilon = reader.number(reader.setting(op, "epsilon", default), x)
    assert epsilon.const_value is not None
    return reader.node("Add", [x, epsilon]) if epsilon.const_value.numpy() != 0 else x


@reads("clip")
def clip(reader: Reader, op: Operation) -> None:
    x = reader.value(op, "x")
    ends = [reader.number(reader.setting(op, name), x) for name in ("alpha", "beta")]
    reader.give(op, reader.node("Clip", [x, *ends]))


@reads("threshold")
def threshold(reader: Reader, op: Operation) -> None:
    """Max with a number."""
    x = reader.value(op, "x")
    reader.give(op, reader.node("Max", [x, reader.number(reader.setting(op, "alpha"), x)]))


@reads("cast")
def cast(reader: Reader, op: Operation) -> None:
    """Cast, to the type that the output declares; both round towards zero."""
    dtype = op.outputs[0].type.dtype
    assert dtype is not None
    x = reader.value(op, "x")
    reader.give(op, reader.node("Cast", [x], {"to": int(dtype)}, dtype))


def _is_integer(x: onnx_ir.Value) -> bool:
    return x.dtype is not None and x.dtype.is_integer()
