"""Reshape, Transpose and their like: other shapes of the same numbers."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import ints, number
from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context, strided
from emitters.tflite.graph import DataType, Shape, Tensor
from emitters.tflite.ops.arithmetic import select
from emitters.tflite.registry import lowers


@lowers("Transpose", integer=True)
def transpose(context: Context, node: onnx_ir.Node) -> None:
    """TRANSPOSE; without ``perm``, ONNX's reverses the axes."""
    x = context.tensor(node.inputs[0])
    order = ints(node, "perm", range(x.rank)[::-1])
    context.give(node.outputs[0], build.transpose(context, x, order))


@lowers("Reshape", "Flatten", "Squeeze", "Unsqueeze", integer=True)
def reshape(context: Context, node: onnx_ir.Node) -> None:
    """RESHAPE to the shape that ONNX's inference gives the output; a Reshape whose target has free
    dimensions that nothing else has takes the target as it is computed."""
    x, shape = context.tensor(node.inputs[0]), _shape(context, node)
    free = [dim for dim in shape if isinstance(dim, str)]
    lost = [dim for dim in free if not context.knows(dim)]
    if node.op_type not in ("Reshape", "Flatten") or len(free) <= 1 or not lost:
        context.give(node.outputs[0], build.reshape(context, x, shape))
        return
    if node.op_type == "Flatten":
        target = _flat(context, x, number(node, "axis", 1) % (x.rank + 1))
    else:
        target = build.cast(context, context.tensor(node.inputs[1]), DataType.INT32)
    if node.op_type == "Reshape" and not number(node, "allowzero", 0):
        target = _zeros_copied(context, x, target)
    made = context.emit("RESHAPE", [x, target], shape, quant=x.quant)
    context.give(node.outputs[0], made)


def _shape(context: Context, node: onnx_ir.Node) -> Shape:
    """The output's shape: of a Squeeze or Unsqueeze of known axes, in the input's sizes."""
    x, shape = context.tensor(node.inputs[0]), context.shape(node.outputs[0])
    axes = context.array(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes is None or node.op_type not in ("Squeeze", "Unsqueeze"):
        return shape
    changed = {int(axis) % max(x.rank, len(shape)) for axis in axes.ravel()}
    if node.op_type == "Squeeze":
        return tuple(dim for axis, dim in enumerate(x.shape) if axis not in changed)
    rest = iter(x.shape)
    return tuple(1 if axis in changed else next(rest) for axis in range(len(shape)))


def _flat(context: Context, x: Tensor, axis: int) -> Tensor:
    """Two sizes, computed: the product of those before an axis, and what is left."""
    first = context.integers([1])
    for dim in x.shape[:axis]:
        first = build.binary(context, "MUL", first, context.sizes([dim]))
    return context.joined([first, context.integers([-1])])


def _zeros_copied(context: Context, x: Tensor, target: Tensor) -> Tensor:
    """A target whose zeros, which TFLite takes as they are, are the sizes of ``x`` there."""
    count = target.shape[0]
    if not isinstance(count, int):
        raise Refused("a Reshape to a shape with a computed number of axes")
    own = context.emit("SHAPE", [x], (x.rank,), DataType.INT32, options={"outType": 2})
    if count > x.rank:  # where x has no axis, ONNX has no zero
        none = context.integers([0] * (count - x.rank))
        own = context.joined([own, none])
    elif count < x.rank:
        limits = [context.integers([limit]) for limit in (0, count, 1)]
        own = context.emit("STRIDED_SLICE", [own, *limits], (count,), options=strided())
    zero = build.scalar(context, 0, target)
    empty = build.binary(context, "EQUAL", target, zero, DataType.BOOL)
    return select(context, empty, own, target)


@lowers("Identity", integer=True)
def identity(context: Context, node: onnx_ir.Node) -> None:
    """Nothing: the output is the input."""
    context.give(node.outputs[0], context.tensor(node.inputs[0]))
