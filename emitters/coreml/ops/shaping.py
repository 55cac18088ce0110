"""Transpose and Identity."""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context
from emitters.coreml.registry import lowers
from emitters.lowering.attributes import ints


@lowers("Identity")
def identity(context: Context, node: onnx_ir.Node) -> None:
    """The same variable."""
    context.give(node.outputs[0], context.var(node.inputs[0]))


@lowers("Transpose")
def transpose(context: Context, node: onnx_ir.Node) -> None:
    """transpose."""
    x = context.var(node.inputs[0])
    perm = ints(node, "perm", range(len(x.shape))[::-1])
    context.give(node.outputs[0], context.op("transpose", x=x, perm=perm) if perm else x)
