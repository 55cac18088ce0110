"""Clip."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir

from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers
from emitters.coreml.types import Array, narrowed


@lowers("Clip")
def clip(context: Context, node: onnx_ir.Node) -> None:
    """clip where both limits are constants, relu and relu6 where they are theirs; else maximum,
    then minimum: the upper limit has the last word."""
    x = context.var(node.inputs[0])
    low, high = (_constant(context, node, index) for index in (1, 2))
    real = context.type_of(x) != "int32"
    if real and low is not None and high is not None and -math.inf < low < high < math.inf:
        made = _between(context, x, low, high)
    elif real and low == 0 and _open(context, node, 2):
        made = context.op("relu", x=x)
    else:
        made = x
        if not _open(context, node, 1):
            made = context.op("maximum", x=made, y=_limit(context, node, 1))
        if not _open(context, node, 2):
            made = context.op("minimum", x=made, y=_limit(context, node, 2))
    context.give(node.outputs[0], made)


def _between(context: Context, x: Var, low: Array, high: Array) -> Var:
    if low == 0 and high == 6:
        return context.op("relu6", x=x)
    return context.op("clip", x=x, alpha=low.reshape(())[()], beta=high.reshape(())[()])


def _constant(context: Context, node: onnx_ir.Node, index: int) -> Array | None:
    if len(node.inputs) <= index or node.inputs[index] is None:
        return None
    return context.array(node.inputs[index])


def _open(context: Context, node: onnx_ir.Node, index: int) -> bool:
    """Whether there is no limit on a side, or an infinite one."""
    if len(node.inputs) <= index or node.inputs[index] is None:
        return True
    limit = context.array(node.inputs[index])
    return limit is not None and bool(limit == (-math.inf, math.inf)[index - 1])


def _limit(context: Context, node: onnx_ir.Node, index: int) -> Var:
    """A limit without axes; of integers too wide for int32, int32's."""
    limit = context.array(node.inputs[index])
    if limit is not None:
        if limit.dtype.kind in "iu":
            limit = narrowed(limit, saturate=True)
        return context.const(np.asarray(limit).reshape(()))
    return context.var(node.inputs[index])
