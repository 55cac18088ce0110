"""Comparisons, And, Or, Xor, Not, IsNaN, IsInf and Where."""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context
from emitters.coreml.registry import lowers
from emitters.coreml.select import select

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
    x, y = (context.var(value) for value in node.inputs)
    context.give(node.outputs[0], context.op(_LOGICAL[node.op_type], x=x, y=y))


@lowers("Not")
def logical_not(context: Context, node: onnx_ir.Node) -> None:
    context.give(node.outputs[0], context.op("logical_not", x=context.var(node.inputs[0])))


@lowers("IsNaN")
def is_nan(context: Context, node: onnx_ir.Node) -> None:
    """NaN is what isn't equal to itself."""
    x = context.var(node.inputs[0])
    context.give(node.outputs[0], context.op("not_equal", x=x, y=x))


@lowers("Where")
def where(context: Context, node: onnx_ir.Node) -> None:
    condition, x, y = (context.var(value) for value in node.inputs)
    context.give(node.outputs[0], select(context, condition, x, y))
