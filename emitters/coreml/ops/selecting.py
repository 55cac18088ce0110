"""NonZero, ReverseSequence, and what is made of nothing but sizes: Range and
ConstantOfShape."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from emitters.coreml import limits, sizing
from emitters.coreml.context import Context, free
from emitters.coreml.registry import lowers
from emitters.coreml.types import DataType, held


@lowers("NonZero")
def non_zero(context: Context, node: onnx_ir.Node) -> None:
    """non_zero, whose rows are ONNX's columns."""
    x = context.var(node.inputs[0])
    if not x.shape:
        raise Refused("a NonZero of a tensor without axes")
    made = context.op("non_zero", x=x)
    context.give(node.outputs[0], context.op("transpose", x=made, perm=[1, 0]))


@lowers("ReverseSequence")
def reverse_sequence(context: Context, node: onnx_ir.Node) -> None:
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
