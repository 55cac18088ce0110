"""Softmax and LogSoftmax."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import number
from emitters.coreml.context import Context
from emitters.coreml.registry import lowers


@lowers("Softmax")
def softmax(context: Context, node: onnx_ir.Node) -> None:
    x = context.var(node.inputs[0])
    axis = number(node, "axis", -1) % len(x.shape)
    context.give(node.outputs[0], context.op("softmax", x=x, axis=axis))


@lowers("LogSoftmax")
def log_softmax(context: Context, node: onnx_ir.Node) -> None:
    """x less the logarithm of the sum of its exponentials, from the largest: there the logarithm
    is small, and exact."""
    x = context.var(node.inputs[0])
    over = {"axes": [number(node, "axis", -1) % len(x.shape)], "keep_dims": True}
    centred = context.op("sub", x=x, y=context.op("reduce_max", x=x, **over))
    total = context.op("reduce_log_sum_exp", x=centred, **over)
    context.give(node.outputs[0], context.op("sub", x=centred, y=total))
