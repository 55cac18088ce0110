"""Slice, Split, Concat, Tile, Expand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import QUANT, Context, strided
from emitters.tflite.graph import Array, DataType, Tensor, known
from emitters.tflite.ops.reals import stored
from emitters.tflite.registry import lowers

_ENDLESS = 1 << 30


@lowers("Concat", integer=True)
def concat(context: Context, node: onnx_ir.Node) -> None:
    """CONCATENATION; of integers with scales, all of one: others are brought to it."""
    quant, tensors = node.outputs[0].meta.get(QUANT), context.tensors(node)
    tensors = [stored(context, tensor, tensor.dtype, quant) for tensor in tensors]
    axis = node.attributes["axis"].as_int() % tensors[0].rank
    kept = [tensor for tensor in tensors if tensor.shape[axis] != 0] or tensors[:1]
    output = node.outputs[0]
    made = context.emit(
        "CONCATENATION",
        kept,
        context.shape(output),
        tensors[0].dtype,
        quant=quant,
        options={"axis": axis, "fusedActivationFunction": 0},
    )
    context.give(output, made)


@lowers("Split", integer=True)
def split(context: Context, node: onnx_ir.Node) -> None:
    """SPLIT, which XNNPACK has for floats, or SPLIT_V; parts of a free axis have sizes that are
    computed: equal ones, the last the rest."""
    x = context.tensor(node.inputs[0])
    dtype = x.dtype
    if dtype == DataType.BOOL:  # which SPLIT_V doesn't take
        x = build.cast(context, x, DataType.INT8)
    axis = number(node, "axis", 0) % x.rank
    shapes = [context.shape(output) for output in node.outputs]
    sizes = [shape[axis] for shape in shapes]
    numbers = [size for size in sizes if isinstance(size, int)]
    at = context.constant(np.asarray(axis, np.int32))
    if dtype == DataType.FLOAT and len(numbers) == len(sizes) and len(set(sizes)) == 1:
        specs = [(shape, dtype, None) for shape in shapes]
        options = {"numSplits": len(shapes)}
        equal = context.emit_many("SPLIT", [at, x], specs, options=options)
        for output, tensor in zip(node.outputs, equal, strict=True):
            context.give(output, tensor)
        return
    if len(numbers) == len(sizes):
        parts = context.integers(numbers)
    elif len(node.inputs) > 1 and node.inputs[1] is not None:
        parts = build.cast(context, context.tensor(node.inputs[1]), DataType.INT32)
    else:
        parts = _equal_parts(context, x.shape[axis], len(sizes))
    made = context.emit_many(
        "SPLIT_V",
        [x, parts, at],
        [(shape, x.dtype, x.quant) for shape in shapes],
        options={"numSplits": len(shapes)},
    )
    for output, tensor in zip(node.outputs, made, strict=True):
        context.give(output, build.cast(context, tensor, dtype))


def _equal_parts(context: Context, size: int | str, count: int) -> Tensor:
    """Sizes rounded up, and what is left for the last: int32 [count]."""
    whole = context.sizes([size])
    more = build.binary(context, "ADD", whole, context.integers([count - 1]))
    part = build.binary(context, "FLOOR_DIV", more, context.integers([count]))
    used = build.binary(context, "MUL", part, context.integers([count - 1]))
    last = build.binary(context, "SUB", whole, used)
    return context.joined([*[part] * (count - 1), last])


@lowers("Slice", integer=True)
def slice_(context: Context, node: onnx_ir.Node) -> None:
    """STRIDED_SLICE; the masks say where ONNX's limits go beyond an end. Starts and ends may be
    computed at run time, axes and steps not."""
    x = context.tensor(node.inputs[0])
    shape = context.shape(node.outputs[0])
    sizes = known(shape)
    if sizes is not None and 0 in sizes:
        context.give(node.outputs[0], context.constant(np.zeros(sizes, x.dtype.numpy())))
        return
    starts, ends = context.array(node.inputs[1]), context.array(node.inputs[2])
    if x.rank > 5 or x.dtype in (DataType.UINT16, DataType.UINT64):
        context.give(node.outputs[0], _by_gather(context, node, x, starts, ends))
        return
    if starts is not None and ends is not None:
        empty = _empty_axes(context, node, x, starts, ends)
        if empty:
            zero = build.scalar(context, 0, x)
            none = [0 if axis in empty else dim for axis, dim in enumerate(shape)]
            made = context.emit("FILL", [context.sizes(none), zero], none, x.dtype, quant=x.quant)
            context.give(node.outputs[0], made)
            return
        limits, options = _known_limits(context, node, x, starts, ends)
    else:
        limits, options = _computed_limits(context, node, x)
    made = context.emit(
        "STRIDED_SLICE", [x, *limits], shape, x.dtype, quant=x.quant, options=options
    )
    context.give(node.outputs[0], made)


def _empty_axes(
    context: Context, node: onnx_ir.Node, x: Tensor, starts: Array, ends: Array
) -> list[int]:
    """Axes of which nothing is left: XNNPACK takes a size of 0 for all there is."""
    axes, steps = _axes(context, node, x, starts.size), _steps(context, node, starts.size)
    found = []
    for axis, first, last, stride in zip(axes, starts.ravel(), ends.ravel(), steps, strict=True):
        size = x.shape[axis]
        if (
            isinstance(size, int)
            and not range(size)[slice(*_clamped(size, int(first), int(last), stride))]
        ):
            found.append(axis)
    return found


def _by_gather(
    context: Context, node: onnx_ir.Node, x: Tensor, starts: Array | None, ends: Array | None
) -> Tensor:
    """A GATHER for each axis that is cut: STRIDED_SLICE takes up to five axes."""
    if starts is None or ends is None:
        raise Refused("a Slice of more than five axes with computed limits")
    axes, steps = _axes(context, node, x, starts.size), _steps(context, node, starts.size)
    for axis, first, last, stride in zip(axes, starts.ravel(), ends.ravel(), steps, strict=True):
        size = x.shape[axis]
        if not isinstance(size, int):
            raise Refused("a Slice of more than five axes along a free axis", "fix it (--input)")
        places = range(size)[slice(*_clamped(size, int(first), int(last), stride))]
        if list(places) == list(range(size)):
            continue
        shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
        options = {"axis": axis, "batchDims": 0}
        inputs = [x, context.integers(places)]
        x = context.emit("GATHER", inputs, shape, quant=x.quant, options=options)
    return x


def _axes(context: Context, node: onnx_ir.Node, x: Tensor, count: int) -> list[int]:
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        return [int(i) % x.rank for i in context.needed(node, 3, "axes").ravel()]
    return list(range(count))


def _steps(context: Context, node: onnx_ir.Node, count: int) -> list[int]:
    if len(node.inputs) > 4 and node.inputs[4] is not None:
        return [int(i) for i in context.needed(node, 4, "steps").ravel()]
    return [1] * count


def _known_limits(
    context: Context, node: onnx_ir.Node, x: Tensor, starts: Array, ends: Array
) -> tuple[list[Tensor], dict[str, Any]]:
    axes, steps = _axes(context, node, x, starts.size), _steps(context, node, starts.size)
    begin, end, step = [0] * x.rank, [0] * x.rank, [1] * x.rank
    begin_mask = end_mask = (1 << x.rank) - 1
    for axis, first, last, stride in zip(axes, starts.ravel(), ends.ravel(), steps, strict=True):
        low, high, open_low, open_high = _limits(x.shape[axis], int(first), int(last), stride)
        begin[axis], end[axis], step[axis] = low, high, stride
        begin_mask &= ~(0 if open_low else 1 << axis)
        end_mask &= ~(0 if open_high else 1 << axis)
    limits = [context.integers(numbers) for numbers in (begin, end, step)]
    return limits, strided(begin_mask, end_mask)


def _computed_limits(
    context: Context, node: onnx_ir.Node, x: Tensor
) -> tuple[list[Tensor], dict[str, Any]]:
    starts, ends = (_as_limits(context, context.tensor(value)) for value in node.inputs[1:3])
    count = starts.shape[0]
    if not isinstance(count, int):
        raise Refused("a Slice along an unknown number of axes")
    axes, steps = _axes(context, node, x, count), _steps(context, node, count)
    step = [1] * x.rank
    for axis, stride in zip(axes, steps, strict=True):
        step[axis] = stride
    mask = sum(1 << axis for axis in range(x.rank) if axis not in axes)
    begin, end = (_spread(context, limits, axes, x.rank) for limits in (starts, ends))
    return [begin, end, context.integers(step)], strided(mask, mask)


def _as_limits(context: Context, limits: Tensor) -> Tensor:
    """Limits as int32; ONNX's largest int64 is as far as int32 goes."""
    if limits.dtype != DataType.INT64:
        return build.cast(context, limits, DataType.INT32)
    top, bottom = build.scalar(context, _ENDLESS, limits), build.scalar(context, -_ENDLESS, limits)
    kept = build.binary(context, "MINIMUM", limits, top)
    return build.cast(context, build.binary(context, "MAXIMUM", kept, bottom), DataType.INT32)


def _spread(context: Context, limits: Tensor, axes: list[int], rank: int) -> Tensor:
    """A limit for each axis of the tensor; 0, which is masked, for those that aren't cut."""
    zero = context.integers([0])
    pieces = [zero] * rank
    for place, axis in enumerate(axes):
        at = [context.integers([place]), context.integers([place + 1]), context.integers([1])]
        pieces[axis] = context.emit("STRIDED_SLICE", [limits, *at], (1,), options=strided())
    return context.joined(pieces)


def _limits(size: int | str, start: int, end: int, step: int) -> tuple[int, int, bool, bool]:
    """Begin and end for TensorFlow, and whether each is open: goes to where the axis ends."""
    if isinstance(size, int):
        indices = range(size)[slice(*_clamped(size, start, end, step))]
        if not indices:
            return 0, 0, False, False
        stop = indices[-1] + (1 if step > 0 else -1)
        return indices[0], max(stop, 0), False, stop < 0
    if step > 0:
        return _cut(start), _cut(end), start == 0, end >= _ENDLESS
    return _cut(start), _cut(end), start >= _ENDLESS or start == -1, end <= -_ENDLESS


def _clamped(size: int, start: int, end: int, step: int) -> tuple[int, int | None, int]:
    """ONNX's limits as Python's: what lies before the first element is no index from the end."""
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        return max(start, 0), max(end, 0), step
    return min(max(start, 0), size - 1), (end if end >= 0 else None), step


def _cut(number: int) -> int:
    return max(-_ENDLESS, min(_ENDLESS, number))


@lowers("Tile", integer=True)
def tile(context: Context, node: onnx_ir.Node) -> None:
    """TILE, whose repeats may be computed."""
    x = context.tensor(node.inputs[0])
    repeats = build.cast(context, context.tensor(node.inputs[1]), DataType.INT32)
    made = context.emit("TILE", [x, repeats], context.shape(node.outputs[0]), quant=x.quant)
    context.give(node.outputs[0], made)


@lowers("Expand")
def expand(context: Context, node: onnx_ir.Node) -> None:
    """BROADCAST_TO, to what both shapes give together: the data may have more than ONNX's 1."""
    x = context.tensor(node.inputs[0])
    shape = context.shape(node.outputs[0])
    if shape == x.shape:
        context.give(node.outputs[0], x)
        return
    if len(shape) > 8:
        raise Refused("BROADCAST_TO takes up to eight axes")
    if known(shape) is not None:
        sizes = context.sizes(shape)
    else:
        wanted = build.cast(context, context.tensor(node.inputs[1]), DataType.INT32)
        own = context.sizes(x.shape) if known(x.shape) is not None else measured(context, x)
        sizes = context.emit("BROADCAST_ARGS", [own, wanted], (len(shape),), DataType.INT32)
    made = context.emit("BROADCAST_TO", [x, sizes], shape, quant=x.quant)
    context.give(node.outputs[0], made)


def measured(context: Context, x: Tensor) -> Tensor:
    """The shape of ``x`` at run time, as int32."""
    return context.emit("SHAPE", [x], (x.rank,), DataType.INT32, options={"outType": 2})


@lowers("ConstantOfShape")
def constant_of_shape(context: Context, node: onnx_ir.Node) -> None:
    """FILL, or a constant."""
    attribute = node.attributes.get("value")
    tensor = attribute.as_tensor() if attribute is not None else None
    value = np.zeros((), np.float32) if tensor is None else tensor.numpy().reshape(())
    shape = context.shape(node.outputs[0])
    if all(isinstance(dim, int) or context.knows(dim) for dim in shape):
        sizes = context.sizes(shape)
    else:
        sizes = build.cast(context, context.tensor(node.inputs[0]), DataType.INT32)
    dtype = node.outputs[0].dtype or DataType.FLOAT
    made = context.emit("FILL", [sizes, context.constant(value)], shape, dtype)
    context.give(node.outputs[0], made)
