"""Comparisons, And, Or, Not, Where and bitwise operators; NonZero, the places of what is true."""

from __future__ import annotations

import onnx_ir

from converter.ir.refused import Refused
from emitters.tflite import build, kernels
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType
from emitters.tflite.ops.arithmetic import select
from emitters.tflite.registry import lowers

_COMPARISONS = {
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
}
_LOGICAL = {"And": "LOGICAL_AND", "Or": "LOGICAL_OR", "Xor": "NOT_EQUAL"}


@lowers(*_COMPARISONS)
def compare(context: Context, node: onnx_ir.Node) -> None:
    """EQUAL, LESS and so on, with broadcasting."""
    a, b = context.tensors(node)
    made = kernels.compare(context, _COMPARISONS[node.op_type], a, b)
    context.give(node.outputs[0], made)


@lowers(*_LOGICAL)
def logical(context: Context, node: onnx_ir.Node) -> None:
    """LOGICAL_AND, LOGICAL_OR; Xor of truth values is NOT_EQUAL."""
    a, b = context.tensors(node)
    made = build.binary(context, _LOGICAL[node.op_type], a, b, DataType.BOOL)
    context.give(node.outputs[0], made)


@lowers("Not")
def logical_not(context: Context, node: onnx_ir.Node) -> None:
    x = context.tensor(node.inputs[0])
    context.give(node.outputs[0], build.unary(context, "LOGICAL_NOT", x))


@lowers("Where")
def where(context: Context, node: onnx_ir.Node) -> None:
    """SELECT_V2."""
    condition, a, b = context.tensors(node)
    context.give(node.outputs[0], select(context, condition, a, b))


@lowers("NonZero")
def non_zero(context: Context, node: onnx_ir.Node) -> None:
    """WHERE, which has a row for each element where ONNX has a column."""
    x = context.tensor(node.inputs[0])
    if x.rank == 0:
        raise Refused("a NonZero of a tensor without axes")
    if x.dtype != DataType.BOOL:
        x = kernels.compare(context, "NOT_EQUAL", x, build.scalar(context, 0, x))
    shape = (f"{node.outputs[0].name}?1", x.rank)
    made = context.emit("WHERE", [x], shape, DataType.INT64)
    context.give(node.outputs[0], build.transpose(context, made, [1, 0]))
