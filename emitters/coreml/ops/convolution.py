"""Conv."""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context
from emitters.coreml.registry import lowers
from emitters.lowering.attributes import ints, number, text
from emitters.lowering.refused import Refused


@lowers("Conv")
def convolution(context: Context, node: onnx_ir.Node) -> None:
    """conv, of one to three spatial axes."""
    x, weight = context.var(node.inputs[0]), context.var(node.inputs[1])
    axes = len(weight.shape) - 2
    if text(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Refused("automatic padding")
    pads = ints(node, "pads", [0] * 2 * axes)
    made = context.op(
        "conv",
        x=x,
        weight=weight,
        bias=context.optional(node, 2),
        strides=ints(node, "strides", [1] * axes),
        dilations=ints(node, "dilations", [1] * axes),
        groups=number(node, "group", 1),
        pad_type="custom",
        pad=[pads[i // 2 + axes * (i % 2)] for i in range(2 * axes)],
    )
    context.give(node.outputs[0], made)
