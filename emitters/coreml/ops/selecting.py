"""NonZero, OneHot, ReverseSequence, and what is made of nothing but sizes: Range and
ConstantOfShape."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.graph.attributes import number
from emitters.coreml import limits, sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.indices import from_start
from emitters.coreml.ops.gathering import gathered
from emitters.coreml.registry import lowers
from emitters.coreml.types import DataType, held
from emitters.lowering.refused import Refused


@lowers("NonZero")
def non_zero(context: Context, node: onnx_ir.Node) -> None:
    """non_zero, whose rows are ONNX's columns."""
    x = context.var(node.inputs[0])
    if not x.shape:
        raise Refused("a NonZero of a tensor without axes")
    made = context.op("non_zero", x=x)
    context.give(node.outputs[0], context.op("transpose", x=made, perm=[1, 0]))


@lowers("OneHot")
def one_hot(context: Context, node: onnx_ir.Node) -> None:
    """Each index compared with 0, 1, ... : of an index out of bounds no element is "on", which
    one_hot doesn't promise."""
    indices = context.cast(context.var(node.inputs[0]), "int32")
    depth = _one(context, node.inputs[1])
    rank = len(indices.shape)
    axis = number(node, "axis", -1) % (rank + 1)
    indices = from_start(context, indices, depth)
    after = list(range(1, 1 + rank - axis))
    row = sizing.counted(context, depth)
    row = context.op("expand_dims", x=row, axes=after) if after else row
    column = context.op("expand_dims", x=indices, axes=[axis])
    hot = context.op("equal", x=column, y=row)
    context.give(node.outputs[0], _on_off(context, node.inputs[2], hot))


def _one(context: Context, value: onnx_ir.Value | None) -> sizing.Size:
    """A tensor of one element as a size."""
    array = context.array(value)
    if array is not None:
        return int(array.item())
    x = context.cast(context.var(value), "int32")
    return sizing.reshape(context, x, [1])


def _on_off(context: Context, value: onnx_ir.Value | None, hot: Var) -> Var:
    """``value[1]`` where ``hot``, else ``value[0]``."""
    known = context.array(value)
    kind = held(context.dtype(value))
    if known is not None and known.ravel().tolist() == [0, 1]:
        return context.cast(hot, kind)
    values = context.var(value)
    off, on = (
        context.cast(
            gathered(context, "gather", values, context.const(np.asarray(i, np.int32))), kind
        )
        for i in range(2)
    )
    # select's inference looks at a and b alone: one of them has to have the whole shape
    whole = sizing.broadcast(
        context,
        sizing.reshape(context, on, [1] * len(hot.shape)),
        sizing.sizes(context, hot),
    )
    return context.op("select", cond=hot, a=whole, b=off)


@lowers("ReverseSequence")
def reverse_sequence(context: Context, node: onnx_ir.Node) -> None:
    """reverse_sequence."""
    x, lengths = context.var(node.inputs[0]), context.var(node.inputs[1])
    made = context.op(
        "reverse_sequence",
        x=x,
        lengths=lengths,
        seq_axis=number(node, "time_axis", 0),
        batch_axis=number(node, "batch_axis", 1),
    )
    context.give(node.outputs[0], made)


# -- made of sizes -------------------------------------------------------------------------


@lowers("Range")
def range_(context: Context, node: onnx_ir.Node) -> None:
    """range_1d."""
    start, end, step = (sizing.reshape(context, context.var(value), []) for value in node.inputs)
    context.give(node.outputs[0], context.op("range_1d", start=start, end=end, step=step))


@lowers("ConstantOfShape")
def constant_of_shape(context: Context, node: onnx_ir.Node) -> None:
    """fill."""
    attribute = node.attributes.get("value")
    tensor = attribute.as_tensor() if attribute is not None else None
    value = 0.0 if tensor is None else np.asarray(tensor.numpy()).reshape(-1)[0]
    kind = held(node.outputs[0].dtype or DataType.FLOAT)
    known = context.array(node.inputs[0])
    if known is not None:
        if 0 in known:
            raise Refused(limits.EMPTY)
        made = sizing.filled(context, value, [int(item) for item in known.ravel()], kind)
    else:
        wanted = context.var(node.inputs[0])
        if free(wanted.shape[0]):
            raise Refused("a shape with a computed number of axes", "fix its sizes (--input)")
        made = sizing.filled(context, value, sizing.elements(context, wanted), kind)
    context.give(node.outputs[0], made)
