"""Unique, by comparing all elements (or slices along an axis) with one another.

earliest[i]   the first j whose element is that of i
place[i]      how many elements that are firsts come before it: smaller ones, or earlier ones
              where the output isn't sorted. It is ONNX's inverse index
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.graph.attributes import number
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.gathering import gathered
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import Size


@lowers("Unique")
def unique(context: Context, node: onnx_ir.Node) -> None:
    """See the module."""
    x = context.var(node.inputs[0])
    if "axis" in node.attributes and x.shape:
        axis = number(node, "axis", 0) % len(x.shape)
    else:
        x, axis = sizing.reshape(context, x, [-1]), 0
    slices = _slices(context, x, axis)
    count = sizing.size(context, x, axis)
    same, differs = _compared(context, slices)
    earliest = _first_of(context, same, sizing.counted(context, count), count)
    own = sizing.counted(context, count)
    first = context.op("equal", x=earliest, y=own)
    places = context.op("squeeze", x=context.op("non_zero", x=first), axes=[1])
    if number(node, "sorted", 1):
        before = _smaller(context, slices, differs)
        place = _counted_firsts(context, first, before)
        order = context.op(
            "argsort", x=context.op("gather", x=place, indices=places, axis=0), ascending=True
        )
        places = context.op("gather", x=places, indices=order, axis=0)
    else:
        column = context.op("expand_dims", x=earliest, axes=[1])
        place = _counted_firsts(context, first, context.op("less", x=own, y=column))
    _give(context, node, 0, gathered(context, "gather", x, places, axis=axis))
    _give(context, node, 1, places)
    _give(context, node, 2, place)
    equals = context.op("reduce_sum", x=same, axes=[1], keep_dims=False)
    _give(context, node, 3, context.op("gather", x=equals, indices=places, axis=0))


def _give(context: Context, node: onnx_ir.Node, output: int, var: Var) -> None:
    if output < len(node.outputs) and node.outputs[output].name:
        context.give(node.outputs[output], var)


def _slices(context: Context, x: Var, axis: int) -> Var:
    """[count, elements of each]."""
    if context.type_of(x) == "bool":
        x = context.cast(x, "int32")
    order = [axis, *(a for a in range(len(x.shape)) if a != axis)]
    if order != sorted(order):
        x = context.op("transpose", x=x, perm=order)
    return sizing.reshape(context, x, [sizing.size(context, x, 0), -1])


def _pair(context: Context, slices: Var) -> tuple[Var, Var]:
    """Slices as rows [count, 1, elements] and as columns [1, count, elements]."""
    rows, columns = (context.op("expand_dims", x=slices, axes=[axis]) for axis in (1, 0))
    return rows, columns


def _compared(context: Context, slices: Var) -> tuple[Var, Var]:
    """Whether slices are equal, int32 [count, count], and where they differ, int32
    [count, count, elements]."""
    rows, columns = _pair(context, slices)
    differs = context.cast(context.op("not_equal", x=rows, y=columns), "int32")
    apart = context.op("reduce_max", x=differs, axes=[2], keep_dims=False)
    return context.op("sub", x=np.int32(1), y=apart), differs


def _first_of(context: Context, holds: Var, own: Var, count: Size) -> Var:
    """The first index along the last axis where ``holds`` is 1; ``count`` where it nowhere is."""
    limit = sizing.vector(context, [count])
    shifted = context.op("mul", x=holds, y=context.op("sub", x=own, y=limit))
    found = context.op("reduce_min", x=shifted, axes=[-1], keep_dims=False)
    return context.op("add", x=found, y=limit)


def _smaller(context: Context, slices: Var, differs: Var) -> Var:
    """Whether slice j comes before slice i, element by element: bool [count, count]."""
    rows, columns = _pair(context, slices)
    length = sizing.size(context, slices, 1)
    own = sizing.counted(context, length)
    where = context.op("expand_dims", x=_first_of(context, differs, own, length), axes=[2])
    here = context.cast(context.op("equal", x=where, y=own), "int32")
    less = context.cast(context.op("less", x=columns, y=rows), "int32")
    decided = context.op("mul", x=here, y=less)
    return context.cast(context.op("reduce_max", x=decided, axes=[2], keep_dims=False), "bool")


def _counted_firsts(context: Context, first: Var, before: Var) -> Var:
    """For each i, how many j are firsts and before it: int32 [count]."""
    both = context.op("logical_and", x=before, y=context.op("expand_dims", x=first, axes=[0]))
    return context.op("reduce_sum", x=context.cast(both, "int32"), axes=[1], keep_dims=False)
