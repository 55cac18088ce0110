"""Abs, Exp, Sqrt, Sin and other functions of one number."""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context
from emitters.coreml.integers import wrapped
from emitters.coreml.registry import lowers

_DIRECT = {
    "Acos": "acos",
    "Asin": "asin",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}


@lowers(*_DIRECT)
def direct(context: Context, node: onnx_ir.Node) -> None:
    """MIL's operation of the same meaning; ``round`` is to even in both."""
    context.give(node.outputs[0], context.op(_DIRECT[node.op_type], x=context.var(node.inputs[0])))


@lowers("Abs")
def absolute(context: Context, node: onnx_ir.Node) -> None:
    """abs; the least integer of a type is its own."""
    made = context.op("abs", x=context.var(node.inputs[0]))
    context.give(node.outputs[0], wrapped(context, made, context.dtype(node.outputs[0])))


@lowers("Neg")
def negative(context: Context, node: onnx_ir.Node) -> None:
    """Times -1, which turns the sign of zero, too."""
    x = context.var(node.inputs[0])
    made = context.op("mul", x=x, y=context.number(-1, x))
    context.give(node.outputs[0], wrapped(context, made, context.dtype(node.outputs[0])))


@lowers("Reciprocal")
def reciprocal(context: Context, node: onnx_ir.Node) -> None:
    """1 / x: ``inverse`` adds an epsilon, which is none here."""
    x = context.var(node.inputs[0])
    made = context.op("inverse", x=x, epsilon=context.number(0, x))
    context.give(node.outputs[0], made)


@lowers("Log")
def log(context: Context, node: onnx_ir.Node) -> None:
    """log adds an epsilon, which is none here: the logarithm of nothing is minus infinity."""
    x = context.var(node.inputs[0])
    context.give(node.outputs[0], context.op("log", x=x, epsilon=context.number(0, x)))
