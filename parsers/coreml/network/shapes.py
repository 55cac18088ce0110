"""Shapes: flatten, reshape, permute, concat, split, slice, gather and their kin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from parsers.coreml.network.registry import Layer, layer
from parsers.coreml.network.tensors import Network
from parsers.coreml.network.weights import values
from parsers.coreml.reader import DataType
from parsers.coreml.refusal import Refusal
from parsers.coreml.sizes import sizes

_CHANNELS_LAST = [0, 2, 3, 1]
_CHANNELS_FIRST = [0, 3, 1, 2]
_SLICED = (-3, -2, -1)
_MOST = int(np.iinfo(np.int64).max)


# -- networks until iOS12 ----------------------------------------------------------------


@layer("flatten")
def flatten(net: Network, at: Layer) -> onnx_ir.Value:
    """Channels, height and width as channels, in this order or with channels last."""
    x = at.inputs[0]
    rank = net.need_rank(x, 3, 4)
    if at.parameters.mode == 1:
        x = net.node("Transpose", [x], {"perm": [*range(rank - 3), rank - 2, rank - 1, rank - 3]})
    return net.shaped(x, [*[0] * (rank - 3), -1, 1, 1])


@layer("reshape")
def reshape(net: Network, at: Layer) -> onnx_ir.Value:
    """Channels, height and width anew, in this order or with channels last."""
    how, x = at.parameters, at.inputs[0]
    _need_legacy(net, x)
    shape = [int(size) for size in how.targetShape]
    if len(shape) == 4:
        if shape[0] != 1:
            raise Refusal(f"a new length of the sequence, {shape[0]}")
        shape = shape[1:]
    if how.mode == 0:
        return net.shaped(x, [0, *shape])
    channels, height, width = shape
    last = net.node("Transpose", [x], {"perm": _CHANNELS_LAST})
    anew = net.shaped(last, [0, height, width, channels])
    return net.node("Transpose", [anew], {"perm": _CHANNELS_FIRST})


@layer("permute")
def permute(net: Network, at: Layer) -> onnx_ir.Value:
    """Another order of channels, height and width; the sequence's place stays."""
    x = at.inputs[0]
    _need_legacy(net, x)
    order = [int(axis) for axis in at.parameters.axis] or [0, 1, 2, 3]
    if order[0] != 0:
        raise Refusal(f"it moves the sequence's axis: {order}")
    return net.node("Transpose", [x], {"perm": order})


def _need_legacy(net: Network, x: onnx_ir.Value) -> None:
    net.need_rank(x, 4)
    if not net.legacy:
        raise Refusal("a layer of tensors with five axes, in a network that has others")


@layer("loadConstant")
def load_constant(net: Network, at: Layer) -> onnx_ir.Value:
    """A constant of channels, height and width."""
    how = at.parameters
    shape = [int(size) for size in how.shape]
    leading = [1] if net.legacy else [1, 1]
    return net.const(values(how.data, shape).reshape([*leading, *shape]))


@layer("concat")
def concat(net: Network, at: Layer) -> onnx_ir.Value:
    if at.parameters.sequenceConcat:
        raise Refusal("it concatenates sequences")
    return net.node("Concat", at.inputs, {"axis": -3})


@layer("split")
def split(net: Network, at: Layer) -> Sequence[onnx_ir.Value]:
    """The channels in parts of one size."""
    return _split(net, at.inputs[0], -3, at.outputs)


@layer("slice")
def slice_(net: Network, at: Layer) -> onnx_ir.Value:
    """Part of an axis."""
    how = at.parameters
    bounds = [net.ints([how.startIndex]), net.ints([how.endIndex])]
    rest = [net.ints([_SLICED[how.axis]]), net.ints([how.stride or 1])]
    return net.node("Slice", [at.inputs[0], *bounds, *rest])


@layer("dot")
def dot(net: Network, at: Layer) -> onnx_ir.Value:
    """The sum of products along the channels."""
    if at.parameters.cosineSimilarity:
        raise Refusal("the cosine of two vectors, whose epsilon isn't documented")
    product = net.node("Mul", at.inputs)
    return net.op("reduce_sum", x=product, axes=[-3], keep_dims=True)


# -- tensors of any rank -----------------------------------------------------------------


@layer("transpose")
def transpose(net: Network, at: Layer) -> onnx_ir.Value:
    """Another order of axes."""
    return net.op("transpose", x=at.inputs[0], perm=[int(axis) for axis in at.parameters.axes])


@layer("concatND")
def concat_nd(net: Network, at: Layer) -> onnx_ir.Value:
    if at.parameters.interleave:
        raise Refusal("it interleaves its concatenated inputs")
    return net.node("Concat", at.inputs, {"axis": int(at.parameters.axis)})


@layer("splitND")
def split_nd(net: Network, at: Layer) -> Sequence[onnx_ir.Value]:
    """Along an axis, in parts of one size or of given sizes."""
    how = at.parameters
    return _split(net, at.inputs[0], int(how.axis), at.outputs, [int(n) for n in how.splitSizes])


def _split(
    net: Network, x: onnx_ir.Value, axis: int, count: int, parts: Sequence[int] = ()
) -> Sequence[onnx_ir.Value]:
    size = sizes(x)[axis]
    if not parts and size is not None:  # what doesn't divide makes the first ones longer by one
        parts = [size // count + (at < size % count) for at in range(count)]
    given = net.ints(parts) if parts else None
    attributes = {"axis": axis} if parts else {"axis": axis, "num_outputs": count}
    return net.nodes_of("Split", [x, given] if parts else [x], count, attributes)


@layer("stack")
def stack(net: Network, at: Layer) -> onnx_ir.Value:
    """Along a new axis."""
    axis = int(at.parameters.axis)
    wide = [net.node("Unsqueeze", [x, net.ints([axis])]) for x in at.inputs]
    return net.node("Concat", wide, {"axis": axis})


@layer("reshapeStatic", "rankPreservingReshape")
def reshape_static(net: Network, at: Layer) -> onnx_ir.Value:
    """Another shape; 0 keeps a size where the rank stays, one size may be -1."""
    return net.shaped(at.inputs[0], [int(size) for size in at.parameters.targetShape])


@layer("flattenTo2D")
def flatten_to_2d(net: Network, at: Layer) -> onnx_ir.Value:
    """Two axes: all before one, and all from it on."""
    return net.node("Flatten", [at.inputs[0]], {"axis": int(at.parameters.axis)})


@layer("expandDims")
def expand_dims(net: Network, at: Layer) -> onnx_ir.Value:
    """New axes of size 1."""
    return net.node("Unsqueeze", [at.inputs[0], net.ints(at.parameters.axes)])


@layer("squeeze")
def squeeze(net: Network, at: Layer) -> onnx_ir.Value:
    """Without axes of size 1; what has none left has one."""
    x = at.inputs[0]
    how = at.parameters
    found = net.node("Squeeze", [x] if how.squeezeAll else [x, net.ints(how.axes)])
    return net.shaped(found, [1]) if net.need_rank(found) == 0 else found


@layer("tile")
def tile(net: Network, at: Layer) -> onnx_ir.Value:
    """Repeated along each axis."""
    if len(at.inputs) > 1:
        raise Refusal("how often it repeats is computed")
    return net.node("Tile", [at.inputs[0], net.ints(at.parameters.reps)])


@layer("gather")
def gather(net: Network, at: Layer) -> onnx_ir.Value:
    """Elements along an axis, by indices that may be negative."""
    x, indices = at.inputs
    whole = net.node("Cast", [indices], {"to": int(DataType.INT64)}, DataType.INT64)
    return net.node("Gather", [x, whole], {"axis": int(at.parameters.axis)}, x.dtype)


@layer("sliceStatic")
def slice_static(net: Network, at: Layer) -> onnx_ir.Value:
    """Part of each axis; masked ends are the axis's own, squeezed axes are dropped."""
    how, x = at.parameters, at.inputs[0]
    rank = net.need_rank(x)
    masks = {
        name: [*getattr(how, name), *[False] * rank][:rank]
        for name in ("beginMasks", "endMasks", "squeezeMasks")
    }
    starts, ends, steps = [], [], [int(step) for step in how.strides]
    for axis in range(rank):
        back = steps[axis] < 0
        start, end = int(how.beginIds[axis]), int(how.endIds[axis])
        if masks["squeezeMasks"][axis]:
            steps[axis], end = 1, start + 1 or _MOST
        else:
            start = (_MOST if back else 0) if masks["beginMasks"][axis] else start
            end = (-_MOST if back else _MOST) if masks["endMasks"][axis] else end
        starts.append(start)
        ends.append(end)
    bounds = [net.ints(starts), net.ints(ends), net.ints(range(rank)), net.ints(steps)]
    found = net.node("Slice", [x, *bounds])
    dropped = [axis for axis, mask in enumerate(masks["squeezeMasks"]) if mask]
    if not dropped:
        return found
    squeezed = net.node("Squeeze", [found, net.ints(dropped)])
    return net.shaped(squeezed, [1]) if len(dropped) == rank else squeezed


@layer("loadConstantND")
def load_constant_nd(net: Network, at: Layer) -> onnx_ir.Value:
    how = at.parameters
    shape = [int(size) for size in how.shape]
    return net.const(values(how.data, shape))


@layer("fillStatic")
def fill_static(net: Network, at: Layer) -> onnx_ir.Value:
    how = at.parameters
    return net.node("Expand", [net.const(how.value), net.ints(how.targetShape)])


@layer("broadcastToStatic")
def broadcast_to_static(net: Network, at: Layer) -> onnx_ir.Value:
    """Broadcast to a shape."""
    return net.node("Expand", [at.inputs[0], net.ints(at.parameters.targetShape)])


@layer("getShape")
def get_shape(net: Network, at: Layer) -> onnx_ir.Value:
    """The sizes, as numbers of float32."""
    sizes = net.node("Shape", [at.inputs[0]], None, DataType.INT64)
    return net.node("Cast", [sizes], {"to": int(DataType.FLOAT)}, DataType.FLOAT)


@layer("reshapeDynamic")
def reshape_dynamic(net: Network, at: Layer) -> onnx_ir.Value:
    """A shape that is computed."""
    x, shape = at.inputs
    whole = net.node("Cast", [shape], {"to": int(DataType.INT64)}, DataType.INT64)
    found = net.node("Reshape", [x, whole], dtype=x.dtype)
    if found.shape is None:
        found.shape = onnx_ir.Shape([None] * net.size(shape, 0))
    return found


@layer("sliceBySize")
def slice_by_size(net: Network, at: Layer) -> onnx_ir.Value:
    """So many elements of an axis, from a computed place on."""
    how = at.parameters
    x, begin = at.inputs
    axis, size = int(how.axis), int(how.size)
    first = net.node("Cast", [begin], {"to": int(DataType.INT64)}, DataType.INT64)
    start = net.shaped(first, [1])
    end = net.node("Add", [start, net.ints([size])])
    found = net.node("Slice", [x, start, end, net.ints([axis])])
    if found.shape is not None:
        dims = list(found.shape)
        dims[axis] = size
        found.shape = onnx_ir.Shape(dims)
    return found
