"""DynamicQuantizeLinear: uint8 of a scale and zero point that follow from the values."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.coreml.context import Context
from emitters.coreml.registry import lowers

LEVELS = np.float32(255)


@lowers("DynamicQuantizeLinear")
def dynamic_quantize(context: Context, node: onnx_ir.Node) -> None:
    """The operator page's formulas:

    scale = (max(0, x) - min(0, x)) / 255          1 where all are 0, as ONNX Runtime has it
    zero point = saturate(round(-min(0, x) / scale))
    y = saturate(round(x / scale) + zero point)
    """
    x = context.var(node.inputs[0])
    axes = list(range(len(x.shape)))
    zero = np.float32(0)
    whole = context.op("reshape", x=x, shape=[1]) if not axes else x
    axes = axes or [0]
    least = context.op("reduce_min", x=whole, axes=axes, keep_dims=False)
    most = context.op("reduce_max", x=whole, axes=axes, keep_dims=False)
    least, most = (
        context.op("minimum", x=least, y=zero),
        context.op("maximum", x=most, y=zero),
    )
    reach = context.op("sub", x=most, y=least)
    scale = context.op("real_div", x=reach, y=LEVELS)
    nothing = context.op("equal", x=reach, y=zero)
    scale = context.op("select", cond=nothing, a=np.float32(1), b=scale)
    turned = context.op("real_div", x=context.op("sub", x=zero, y=least), y=scale)
    point = _saturated(context, context.op("round", x=turned))
    steps = context.op("round", x=context.op("real_div", x=x, y=scale))
    made = _saturated(context, context.op("add", x=steps, y=point))
    for output, var in zip(node.outputs, (made, scale, point), strict=False):
        context.give(output, var if var is scale else context.cast(var, "int32"))


def _saturated(context: Context, x: object) -> object:
    return context.op("clip", x=x, alpha=np.float32(0), beta=LEVELS)
