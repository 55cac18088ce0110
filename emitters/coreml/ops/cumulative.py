"""CumSum."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import number
from emitters.coreml.context import Context
from emitters.coreml.registry import lowers


@lowers("CumSum")
def cumulative_sum(context: Context, node: onnx_ir.Node) -> None:
    """cumsum, without the element itself and from the end where ONNX says so."""
    x = context.var(node.inputs[0])
    axis = int(context.needed(node, 1, "axes").item()) % len(x.shape)
    made = context.op(
        "cumsum",
        x=x,
        axis=axis,
        exclusive=bool(number(node, "exclusive", 0)),
        reverse=bool(number(node, "reverse", 0)),
    )
    context.give(node.outputs[0], made)
