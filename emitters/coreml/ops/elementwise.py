"""Operators of one operand, and of two, element by element."""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context
from emitters.coreml.registry import lowers

_UNARY = {"Relu": "relu", "Tanh": "tanh", "Sqrt": "sqrt", "Erf": "erf"}
_BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul"}


@lowers(*_UNARY)
def unary(context: Context, node: onnx_ir.Node) -> None:
    """MIL's operation of the same meaning."""
    context.give(node.outputs[0], context.op(_UNARY[node.op_type], x=context.var(node.inputs[0])))


@lowers(*_BINARY)
def binary(context: Context, node: onnx_ir.Node) -> None:
    """MIL's operation of the same meaning; both broadcast alike."""
    x, y = (context.var(value) for value in node.inputs)
    context.give(node.outputs[0], context.op(_BINARY[node.op_type], x=x, y=y))
