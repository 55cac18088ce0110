"""NonZero: the places of what isn't zero."""

from __future__ import annotations

import onnx_ir

from converter.ir.refused import Refused
from emitters.tflite import build, kernels
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType
from emitters.tflite.registry import lowers


@lowers("NonZero")
def non_zero(context: Context, node: onnx_ir.Node) -> None:
    """WHERE, which has a row for each element where ONNX has a column."""
    x = context.tensor(node.inputs[0])
    if x.rank == 0:
        raise Refused("a NonZero of a number of no axes")
    if x.dtype != DataType.BOOL:
        x = kernels.compare(context, "NOT_EQUAL", x, build.scalar(context, 0, x))
    shape = (f"{node.outputs[0].name}?1", x.rank)
    made = context.emit("WHERE", [x], shape, DataType.INT64)
    context.give(node.outputs[0], build.transpose(context, made, [1, 0]))
