"""One element from several: arithmetic, comparisons, choices; and casts."""

from __future__ import annotations

import onnx_ir

from converter.ir.model import dtype_name
from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.steps import (
    ATOM,
    BOTH,
    COMPARED,
    EITHER,
    LOWEST,
    PRODUCT,
    SUM,
    UNARY,
)
from emitters.pytorch.registry import op
from emitters.pytorch.types import WIDE, needs_wide, torch_type

_SIGNS = {
    "Add": ("+", SUM),
    "Sub": ("-", SUM),
    "Mul": ("*", PRODUCT),
    "Div": ("/", PRODUCT),
    "And": ("&", BOTH),
    "Or": ("|", EITHER),
    "Xor": ("^", EITHER),
    "BitwiseAnd": ("&", BOTH),
    "BitwiseOr": ("|", EITHER),
    "BitwiseXor": ("^", EITHER),
    "Equal": ("==", COMPARED),
    "Greater": (">", COMPARED),
    "Less": ("<", COMPARED),
    "GreaterOrEqual": (">=", COMPARED),
    "LessOrEqual": ("<=", COMPARED),
}
_LOGICAL = ("And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor")


@op(*_SIGNS)
def binary(c: Context) -> None:
    """By an operator of Python's."""
    mark, strength = _SIGNS[c.node.op_type]
    if needs_wide(c.dtype(0)) and c.node.op_type not in ("Equal",):
        _wide(c, mark)
        return
    if c.node.op_type == "Div" and not c.dtype(0).startswith(("float", "bfloat", "complex")):
        c.emit(f'torch.div({c.arg(0)}, {c.scalar(1)}, rounding_mode="trunc")')
        return
    inner = ATOM if c.node.op_type in _LOGICAL else strength
    left = c.scalar(0, inner + (strength == COMPARED))
    c.emit(f"{left} {mark} {c.scalar(1, min(inner + 1, ATOM))}", strength)


def _wide(c: Context, mark: str) -> None:
    """Types without kernels, in one that holds all that they do."""
    if c.dtype(0) == "uint64" and c.node.op_type not in ("Add", "Sub", "Mul", *_LOGICAL):
        raise Refused("PyTorch has no kernels for uint64", "use int64")
    left, right = (f"{c.operand(at)}.to({WIDE})" for at in (0, 1))
    if c.node.op_type == "Div":
        text = f'torch.div({left}, {right}, rounding_mode="trunc")'
    else:
        text = f"({left} {mark} {right})"
    gives = c.out_dtype()
    c.emit(text if gives == "bool" else f"{text}.to({torch_type(gives)})")


@op("Pow")
def power(c: Context) -> None:
    """Of the base's type."""
    base, exponent = c.dtype(0), c.dtype(1)
    if needs_wide(base) or needs_wide(exponent):
        raise Refused(f"PyTorch has no power of {base} and {exponent}", "cast them to int64")
    number_ = c.number(1)
    simple = number_ is not None and base.startswith("float")
    if simple and c.scalar(1).replace(".", "").isdigit():
        text = str(int(number_)) if number_ == int(number_ or 0) else c.scalar(1)
        c.emit(f"{c.operand(0)} ** {text}", UNARY)
    elif base == exponent:
        c.emit(f"torch.pow({c.arg(0)}, {c.scalar(1)})")
    elif base.startswith("float"):
        c.emit(f"torch.pow({c.arg(0)}, {c.operand(1)}.to({torch_type(base)}))")
    else:
        wide = f"{c.operand(0)}.to(torch.float64), {c.operand(1)}.to(torch.float64)"
        c.emit(f"torch.pow({wide}).to({torch_type(base)})")


@op("Mod")
def mod(c: Context) -> None:
    """The sign of the divisor's, or with fmod of the dividend's."""
    function = "fmod" if c.attr("fmod", 0) else "remainder"
    if c.dtype(0) == "uint64":
        raise Refused("PyTorch has no kernels for uint64", "use int64")
    if needs_wide(c.dtype(0)):
        wide = ", ".join(f"{c.operand(at)}.to({WIDE})" for at in (0, 1))
        c.emit(f"torch.{function}({wide}).to({torch_type(c.dtype(0))})")
    else:
        c.emit(f"torch.{function}({c.arg(0)}, {c.scalar(1)})")


@op("BitShift")
def shift(c: Context) -> None:
    """Of integers without a sign, in wider ones."""
    if c.dtype(0) == "uint64":
        raise Refused("PyTorch can't shift uint64", "use int64")
    mark = "<<" if c.attr("direction") == "LEFT" else ">>"
    left, right = (f"{c.operand(at)}.to({WIDE})" for at in (0, 1))
    c.emit(f"({left} {mark} {right}).to({torch_type(c.dtype(0))})")


def _folded(c: Context, join: str) -> str:
    text = c.arg(0)
    for at in range(1, len(c.node.inputs)):
        text = f"torch.{join}({text}, {c.arg(at)})"
    return text


@op("Max", "Min")
def extreme(c: Context) -> None:
    """Of any number of tensors."""
    join = "maximum" if c.node.op_type == "Max" else "minimum"
    if needs_wide(c.dtype(0)):
        if c.dtype(0) == "uint64":
            raise Refused("PyTorch has no kernels for uint64", "use int64")
        text = f"{c.operand(0)}.to({WIDE})"
        for at in range(1, len(c.node.inputs)):
            text = f"torch.{join}({text}, {c.operand(at)}.to({WIDE}))"
        c.emit(f"{text}.to({torch_type(c.dtype(0))})")
        return
    c.emit(_folded(c, join), LOWEST)


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
    c.emit(f"torch.where({c.arg(0)}, {one}, {other})")


_CASTS = {"float32": "float", "float64": "double", "int64": "long", "bool": "bool"}


@op("Cast")
def cast(c: Context) -> None:
    """To another type."""
    wanted = dtype_name(onnx_ir.DataType(c.attr("to")))
    torch_type(c.dtype(0))
    text = torch_type(wanted)
    if wanted == c.dtype(0):
        c.emit(c.arg(0), LOWEST)
        return
    if wanted in ("uint8", "uint16", "uint32") and c.dtype(0).startswith(("float", "bfloat")):
        c.emit(f"{c.operand(0)}.to({WIDE}).to({text})")
        return
    method = _CASTS.get(wanted)
    c.emit(f"{c.operand(0)}.{method}()" if method else f"{c.operand(0)}.to({text})")
