"""Dropout, which drops nothing but while training."""

from __future__ import annotations

import onnx_ir

from emitters.coreml import limits
from emitters.coreml.context import Context
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import sizes, vector
from emitters.lowering.refused import Refused


@lowers("Dropout")
def dropout(context: Context, node: onnx_ir.Node) -> None:
    """The operand, and a mask that keeps everything."""
    x = context.var(node.inputs[0])
    training, ratio = context.given(node, 2, "training modes"), context.given(node, 1, "ratios")
    if training is not None and training.item() and (ratio is None or ratio.item()):
        raise Refused(limits.RANDOM)
    context.give(node.outputs[0], x)
    if len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
        shape = vector(context, sizes(context, x))
        mask = context.op("fill", shape=shape, value=True) if x.shape else context.const(True)
        context.give(node.outputs[1], mask)
