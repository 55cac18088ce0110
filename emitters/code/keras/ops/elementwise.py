"""One element from several: arithmetic, comparisons, choices; and casts."""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import constant_tensor
from converter.ir.model import dtype_name
from emitters.code.context import Context
from emitters.code.keras.registry import op
from emitters.code.keras.types import is_whole, keras_type
from emitters.code.steps import ATOM, LOWEST, PRODUCT, SUM, occurrences

_SIGNS = {"Add": ("+", SUM), "Sub": ("-", SUM), "Mul": ("*", PRODUCT), "Div": ("/", PRODUCT)}
_FUNCTIONS = {
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "Equal": "equal",
    "Greater": "greater",
    "Less": "less",
    "GreaterOrEqual": "greater_equal",
    "LessOrEqual": "less_equal",
}


@op(*_SIGNS)
def binary(c: Context) -> None:
    """By an operator of Python's."""
    mark, strength = _SIGNS[c.node.op_type]
    if c.node.op_type == "Div" and is_whole(c.dtype(0)):
        if not c.dtype(0).startswith("uint"):
            c.emit(f"{c.helper('divide_towards_zero')}({c.arg(0)}, {c.arg(1)})")
        else:
            c.emit(f"ops.floor_divide({c.arg(0)}, {c.arg(1)})")
        return
    left = c.scalar(0, strength)
    c.emit(f"{left} {mark} {c.scalar(1, min(strength + 1, ATOM))}", strength)


@op(*_FUNCTIONS)
def compare(c: Context) -> None:
    """By a function."""
    if c.dtype(0) == "uint64":  # of as many bits
        wide = (f'ops.cast({c.arg(at)}, "int64")' for at in (0, 1))
        text = f"ops.{_FUNCTIONS[c.node.op_type]}({', '.join(wide)})"
        c.emit(text if c.out_dtype() == "bool" else f'ops.cast({text}, "uint64")')
        return
    c.emit(f"ops.{_FUNCTIONS[c.node.op_type]}({c.arg(0)}, {c.scalar(1)})")


@op("Pow")
def power(c: Context) -> None:
    """Of the base's type."""
    base, exponent, value = c.dtype(0), c.dtype(1), c.number(1)
    plain = value is not None and (c.array(1).ndim == 0 or c.rank(0))  # type: ignore[union-attr]
    if plain and value == 2 and not base.startswith("uint"):
        text = f"ops.square({c.arg(0)})"
        c.emit(text if not is_whole(base) else f"ops.cast({text}, {keras_type(base)})")
    elif plain and value == 0.5 and not is_whole(base):
        c.emit(f"ops.sqrt({c.arg(0)})")
    elif base == exponent and not is_whole(base):
        c.emit(f"ops.power({c.arg(0)}, {c.scalar(1)})")
    elif not is_whole(base):
        c.emit(f"ops.power({c.arg(0)}, ops.cast({c.arg(1)}, {keras_type(base)}))")
    elif is_whole(exponent):
        wide = f'ops.cast({c.arg(0)}, "int64"), ops.cast({c.arg(1)}, "int64")'
        c.emit(f"ops.cast(ops.power({wide}), {keras_type(base)})")
    else:
        wide = f'ops.cast({c.arg(0)}, "float64"), ops.cast({c.arg(1)}, "float64")'
        c.emit(f"ops.cast(ops.power({wide}), {keras_type(base)})")


@op("Mod")
def mod(c: Context) -> None:
    """The sign of the divisor's, or with fmod of the dividend's."""
    if c.attr("fmod", 0) and not c.dtype(0).startswith("uint"):
        c.emit(f"{c.helper('remainder')}({c.arg(0)}, {c.arg(1)})")
    else:
        c.emit(f"ops.mod({c.arg(0)}, {c.arg(1)})")


@op("BitShift")
def shift(c: Context) -> None:
    """Of integers without a sign."""
    side = "left" if c.attr("direction") == "LEFT" else "right"
    c.emit(f"ops.{side}_shift({c.arg(0)}, {c.arg(1)})")


@op("Max", "Min")
def extreme(c: Context) -> None:
    """Of any number of tensors."""
    join = "maximum" if c.node.op_type == "Max" else "minimum"
    text = c.arg(0)
    for at in range(1, len(c.node.inputs)):
        text = f"ops.{join}({text}, {c.arg(at)})"
    c.emit(text, LOWEST)


@op("Sum", "Mean")
def total(c: Context) -> None:
    """Of any number of tensors."""
    count = len(c.node.inputs)
    text = " + ".join(c.operand(at, SUM + (at > 0)) for at in range(count))
    if c.node.op_type == "Mean" and count > 1:
        c.emit(f"({text}) / {count}", PRODUCT)
    else:
        c.emit(text, SUM if count > 1 else LOWEST)


@op("Where")
def where(c: Context) -> None:
    """Either of two; numbers alone would be of Python's types."""
    typed = c.number(1) is not None and c.number(2) is not None and c.dtype(1) != "float32"
    one, other = (c.arg(at) if typed else c.scalar(at) for at in (1, 2))
    given = [_tensor(c, at, text) for at, text in enumerate((c.arg(0), one, other))]
    c.emit(f"ops.where({', '.join(given)})")


def _tensor(c: Context, at: int, text: str) -> str:
    """An operand for a function that takes no variable of a layer's where JAX computes."""
    is_variable = constant_tensor(c.value(at)) is not None and occurrences(text)
    return f"ops.convert_to_tensor({text})" if is_variable else text


@op("Cast")
def cast(c: Context) -> None:
    """To another type."""
    wanted = dtype_name(onnx_ir.DataType(c.attr("to")))
    keras_type(c.dtype(0))
    text = keras_type(wanted)
    if wanted == c.dtype(0):
        c.emit(c.arg(0), LOWEST)
        return
    x = c.arg(0)
    if wanted in ("uint8", "uint16", "uint32") and "float" in c.dtype(0):
        x = f'ops.cast({x}, "int64")'
    c.emit(f"ops.cast({x}, {text})")
