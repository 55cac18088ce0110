"""Gather, GatherElements and GatherND."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.indices import from_start, vectors_from_start
from emitters.coreml.registry import lowers


def gathered(context: Context, kind: str, x: Var, indices: Var, **settings: Any) -> Var:
    """What an operation of the gather family takes of ``x``; none of them takes booleans.

    Args:
        context: Where it goes.
        kind: The operation: ``gather``, ``gather_along_axis`` or ``gather_nd``.
        x: What is taken from.
        indices: int32.
        **settings: The operation's other inputs.
    """
    if context.type_of(x) != "bool":
        return context.op(kind, x=x, indices=indices, **settings)
    made = context.op(kind, x=context.cast(x, "int32"), indices=indices, **settings)
    return context.cast(made, "bool")


@lowers("Gather")
def gather(context: Context, node: onnx_ir.Node) -> None:
    """gather, which takes negative indices before iOS17; from then on coremltools' pass
    ``guard_negative_gather_indices`` has every gather count from the start."""
    x, indices = context.var(node.inputs[0]), context.var(node.inputs[1])
    axis = number(node, "axis", 0) % len(x.shape)
    if indices.val is not None and not free(x.shape[axis]):
        indices = from_start(context, indices, int(x.shape[axis]))
    context.give(node.outputs[0], gathered(context, "gather", x, indices, axis=axis))


@lowers("GatherElements")
def gather_elements(context: Context, node: onnx_ir.Node) -> None:
    """gather_along_axis, of as much of the data along the other axes as the indices have."""
    x, indices = context.var(node.inputs[0]), context.var(node.inputs[1])
    axis = number(node, "axis", 0) % len(x.shape)
    indices = from_start(context, indices, sizing.size(context, x, axis))
    x = trimmed(context, x, indices, axis)
    made = gathered(context, "gather_along_axis", x, indices, axis=axis)
    context.give(node.outputs[0], made)


def trimmed(context: Context, x: Var, like: Var, axis: int) -> Var:
    """The beginning of ``x``, as long as ``like`` along all axes but one.

    Sizes that aren't the same symbol are taken to differ: MIL wants them equal.

    Args:
        context: Where it goes.
        x: As many axes as ``like``, none of them shorter.
        like: Gives the sizes.
        axis: The one along which ``x`` is whole.
    """
    if all(a == axis or x.shape[a] == like.shape[a] for a in range(len(x.shape))):
        return x
    wanted = [-1 if a == axis else sizing.size(context, like, a) for a in range(len(x.shape))]
    size = sizing.vector(context, wanted)
    return context.op("slice_by_size", x=x, begin=np.zeros(len(x.shape), np.int32), size=size)


def _has_batches(node: onnx_ir.Node, target: int) -> bool:
    """MIL's have, from iOS16 on."""
    return target >= 16 or not number(node, "batch_dims", 0)


@lowers("GatherND", legal=_has_batches)
def gather_nd(context: Context, node: onnx_ir.Node) -> None:
    """gather_nd. From iOS17 on coremltools' pass has indices count from the start, but by the sizes
    of the first axes, which are wrong where there are batch axes."""
    x, indices = context.var(node.inputs[0]), context.var(node.inputs[1])
    batch = number(node, "batch_dims", 0)
    depth = indices.shape[-1]
    if free(depth):
        raise Refused("a GatherND with indices of unknown length", "fix it (--input)")
    if batch or context.target < 17 or indices.val is not None:
        dims = [sizing.size(context, x, axis) for axis in range(batch, batch + int(depth))]
        indices = vectors_from_start(context, indices, dims)
    settings = {"batch_dims": batch} if batch else {}
    context.give(node.outputs[0], gathered(context, "gather_nd", x, indices, **settings))
