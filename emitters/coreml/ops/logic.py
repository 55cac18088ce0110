"""Comparisons, And, Or, Xor, Not, IsNaN, IsInf and Where."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.graph.attributes import number
from emitters.coreml.context import Context
from emitters.coreml.registry import lowers
from emitters.coreml.select import select
from emitters.coreml.types import NUMPY

_COMPARISONS = {
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
}
_LOGICAL = {"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"}


@lowers(*_COMPARISONS)
def compare(context: Context, node: onnx_ir.Node) -> None:
    """less, greater and so on; all broadcast alike."""
    x, y = (context.var(value) for value in node.inputs)
    context.give(node.outputs[0], context.op(_COMPARISONS[node.op_type], x=x, y=y))


@lowers("Equal")
def equal(context: Context, node: onnx_ir.Node) -> None:
    """equal; of truth values, which it doesn't take, not the one or the other."""
    x, y = (context.var(value) for value in node.inputs)
    if context.type_of(x) == "bool":
        made = context.op("logical_not", x=context.op("logical_xor", x=x, y=y))
    else:
        made = context.op("equal", x=x, y=y)
    context.give(node.outputs[0], made)


@lowers(*_LOGICAL)
def logical(context: Context, node: onnx_ir.Node) -> None:
    """logical_and, logical_or, logical_xor."""
    x, y = (context.var(value) for value in node.inputs)
    context.give(node.outputs[0], context.op(_LOGICAL[node.op_type], x=x, y=y))


@lowers("Not")
def logical_not(context: Context, node: onnx_ir.Node) -> None:
    """logical_not."""
    context.give(node.outputs[0], context.op("logical_not", x=context.var(node.inputs[0])))


@lowers("IsNaN")
def is_nan(context: Context, node: onnx_ir.Node) -> None:
    """NaN is what isn't equal to itself."""
    x = context.var(node.inputs[0])
    context.give(node.outputs[0], context.op("not_equal", x=x, y=x))


@lowers("IsInf")
def is_infinite(context: Context, node: onnx_ir.Node) -> None:
    """Beyond the largest number, on the sides that are asked for."""
    x = context.var(node.inputs[0])
    up, down = (number(node, f"detect_{side}", 1) for side in ("positive", "negative"))
    largest = float(np.finfo(NUMPY[context.type_of(x)]).max)
    if up and down:
        x = context.op("abs", x=x)
    if up or not down:
        made = context.op("greater", x=x, y=context.number(largest, x))
    else:
        made = context.op("less", x=x, y=context.number(-largest, x))
    if not up and not down:
        made = context.op("logical_and", x=made, y=context.const(False))
    context.give(node.outputs[0], made)


@lowers("Where")
def where(context: Context, node: onnx_ir.Node) -> None:
    """select."""
    condition, x, y = (context.var(value) for value in node.inputs)
    context.give(node.outputs[0], select(context, condition, x, y))
