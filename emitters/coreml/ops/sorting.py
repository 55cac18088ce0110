"""TopK.

ONNX puts the first of equal numbers first. MIL's documents don't say which ``topk`` and ``argsort``
do; coremltools' own inference is numpy's, and nothing in MIL would do it surely.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from emitters.coreml import limits
from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers


@lowers("TopK")
def topk(context: Context, node: onnx_ir.Node) -> None:
    """topk, where k is a constant; else all are sorted, and cut."""
    x, k = context.var(node.inputs[0]), context.array(node.inputs[1])
    axis = number(node, "axis", -1) % len(x.shape)
    ascending = not number(node, "largest", 1)
    if k is None:
        found = _first(context, x, context.var(node.inputs[1]), axis, ascending)
    elif not k.item():
        raise Refused(limits.EMPTY)
    else:
        found = context.op("topk", x=x, k=int(k.item()), axis=axis, ascending=ascending)
    for output, var in zip(node.outputs, found, strict=True):
        context.give(output, var)


def _first(context: Context, x: Var, k: Var, axis: int, ascending: bool) -> tuple[Var, Var]:
    """As many of the sorted numbers as ``k`` [1] says, and their places."""
    order = context.op("argsort", x=x, axis=axis, ascending=ascending)
    rank = len(x.shape)
    zeros = [context.const(np.zeros(1, np.int32)) for _ in range(rank)]
    end = [*zeros[:axis], k, *zeros[axis + 1 :]]
    places = context.op(
        "slice_by_index",
        x=order,
        begin=[0] * rank,
        end=context.op("concat", values=end, axis=0) if rank > 1 else k,
        end_mask=[each != axis for each in range(rank)],
    )
    return context.op("gather_along_axis", x=x, indices=places, axis=axis), places
