"""Gather and its like, OneHot, TopK, Shape, Range."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Shape, Tensor, known
from emitters.tflite.ops.arithmetic import select
from emitters.tflite.registry import lowers


@lowers("Gather", integer=True)
def gather(context: Context, node: onnx_ir.Node) -> None:
    """GATHER; ONNX's negative indices count from the end."""
    x, indices = context.tensor(node.inputs[0]), context.tensor(node.inputs[1])
    attribute = node.attributes.get("axis")
    axis = (attribute.as_int() if attribute is not None else 0) % x.rank
    indices = from_start(context, indices, x.shape[axis])
    made = context.emit(
        "GATHER",
        [x, indices],
        (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]),
        quant=x.quant,
        options={"axis": axis, "batchDims": 0},
    )
    context.give(node.outputs[0], made)


def from_start(context: Context, indices: Tensor, size: int | str) -> Tensor:
    """Indices that count from the start."""
    if indices.data is not None:
        if indices.data.size == 0 or indices.data.min() >= 0:
            return indices
        if isinstance(size, int):
            return context.constant(np.where(indices.data < 0, indices.data + size, indices.data))
    count = (
        build.scalar(context, size, indices)
        if isinstance(size, int)
        else build.cast(context, build.reshape(context, context.size(size), ()), indices.dtype)
    )
    zero = build.scalar(context, 0, indices)
    negative = build.binary(context, "LESS", indices, zero, DataType.BOOL)
    raised = build.binary(context, "ADD", indices, count)
    return select(context, negative, raised, indices)


@lowers("Shape")
def shape(context: Context, node: onnx_ir.Node) -> None:
    """SHAPE, and a slice of it."""
    x = context.tensor(node.inputs[0])
    start, end = (node.attributes.get(name) for name in ("start", "end"))
    dims = x.shape[
        start.as_int() if start is not None else None : end.as_int() if end is not None else None
    ]
    sizes = context.sizes(dims)
    context.give(node.outputs[0], build.cast(context, sizes, DataType.INT64))


@lowers("TopK")
def top_k(context: Context, node: onnx_ir.Node) -> None:
    """TOPK_V2 along the last axis, largest first; the smallest, of the negated data."""
    x = context.tensor(node.inputs[0])
    k = int(context.needed(node, 1, "k").item())
    attribute, largest = node.attributes.get("axis"), node.attributes.get("largest")
    axis = (attribute.as_int() if attribute is not None else -1) % x.rank
    order = [a for a in range(x.rank) if a != axis] + [axis]
    back = [order.index(a) for a in range(x.rank)]
    moved = build.transpose(context, x, order)
    small = largest is not None and not largest.as_int()
    turned = _turned(context, moved) if small else moved
    dims = (*moved.shape[:-1], k)
    values, indices = context.emit_many(
        "TOPK_V2",
        [turned, context.constant(np.asarray(k, np.int32))],
        [(dims, turned.dtype, None), (dims, DataType.INT32, None)],
    )
    if small:
        values = build.cast(context, _turned(context, values), x.dtype)
    context.give(node.outputs[0], build.transpose(context, values, back))
    whole = build.cast(context, build.transpose(context, indices, back), DataType.INT64)
    context.give(node.outputs[1], whole)


def _turned(context: Context, x: Tensor) -> Tensor:
    """In the opposite order, and back: -x, and of integers -1 - x, which has no overflow."""
    if x.dtype == DataType.FLOAT:
        return build.unary(context, "NEG", x)
    wide = x if x.dtype == DataType.INT64 else build.cast(context, x, DataType.INT32)
    return build.binary(context, "SUB", build.scalar(context, -1, wide), wide)


@lowers("OneHot")
def one_hot(context: Context, node: onnx_ir.Node) -> None:
    """ONE_HOT; ONNX's negative indices count from the end."""
    indices, values = context.tensor(node.inputs[0]), context.tensor(node.inputs[2])
    depth = int(context.needed(node, 1, "depth").item())
    if indices.dtype not in (DataType.INT32, DataType.INT64):
        indices = build.cast(context, indices, DataType.INT64)
    indices = from_start(context, indices, depth)
    attribute = node.attributes.get("axis")
    axis = (attribute.as_int() if attribute is not None else -1) % (indices.rank + 1)
    count = context.constant(np.asarray(depth, np.int32))
    off, on = (_element(context, values, place) for place in (0, 1))
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    inputs = [indices, count, on, off]
    made = context.emit("ONE_HOT", inputs, shape, values.dtype, options={"axis": axis})
    context.give(node.outputs[0], made)


def _element(context: Context, x: Tensor, place: int) -> Tensor:
    if x.data is not None:
        return context.constant(np.asarray(x.data[place]))
    index = context.constant(np.asarray(place, np.int32))
    return context.emit("GATHER", [x, index], (), options={"axis": 0, "batchDims": 0})


@lowers("ReverseSequence")
def reverse_sequence(context: Context, node: onnx_ir.Node) -> None:
    """REVERSE_SEQUENCE."""
    x, lengths = context.tensors(node)
    axes = {"time_axis": 0, "batch_axis": 1}
    for name in axes:
        if name in node.attributes:
            axes[name] = node.attributes[name].as_int()
    options = {"seqDim": axes["time_axis"], "batchDim": axes["batch_axis"]}
    made = context.emit("REVERSE_SEQUENCE", [x, lengths], x.shape, options=options)
    context.give(node.outputs[0], made)


@lowers("Range")
def range_(context: Context, node: onnx_ir.Node) -> None:
    """RANGE."""
    numbers = [build.reshape(context, tensor, ()) for tensor in context.tensors(node)]
    made = context.emit("RANGE", numbers, context.shape(node.outputs[0]))
    context.give(node.outputs[0], made)


@lowers("Size")
def size(context: Context, node: onnx_ir.Node) -> None:
    """The product of SHAPE."""
    x = context.tensor(node.inputs[0])
    sizes = context.sizes(x.shape)
    zero = context.integers([0])
    made = context.emit("REDUCE_PROD", [sizes, zero], (), options={"keepDims": False})
    context.give(node.outputs[0], build.cast(context, made, DataType.INT64))


@lowers("GatherND")
def gather_nd(context: Context, node: onnx_ir.Node) -> None:
    """GATHER_ND, which has no batch axes: their indices are put before the others."""
    x, indices = context.tensor(node.inputs[0]), context.tensor(node.inputs[1])
    attribute = node.attributes.get("batch_dims")
    batch = attribute.as_int() if attribute is not None else 0
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        raise Refused("a GatherND of indices whose length isn't known")
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])
    indices = limited_vectors(context, indices, x, depth, batch)
    for axis in reversed(range(batch)):
        own = _own_index(context, indices, axis)
        options = {"axis": indices.rank - 1, "fusedActivationFunction": 0}
        wider = (*indices.shape[:-1], int(indices.shape[-1]) + 1)
        indices = context.emit("CONCATENATION", [own, indices], wider, options=options)
    context.give(node.outputs[0], _gather_nd(context, x, indices, shape))


def _gather_nd(context: Context, x: Tensor, indices: Tensor, shape: Shape) -> Tensor:
    if x.dtype not in _GATHERED:
        raise Refused(f"GATHER_ND doesn't take {x.dtype.name.lower()}")
    return context.emit("GATHER_ND", [x, indices], shape, x.dtype, quant=x.quant)


_GATHERED = frozenset(
    {DataType.FLOAT, DataType.BOOL, DataType.INT8, DataType.UINT8, DataType.INT16, DataType.INT32,
     DataType.INT64}
)  # fmt: skip


def limited_vectors(
    context: Context, indices: Tensor, x: Tensor, depth: int, batch: int = 0
) -> Tensor:
    """Index vectors [..., depth] that count from the start of each axis from ``batch`` on."""
    if indices.data is not None and indices.data.min(initial=0) >= 0:
        return indices
    sizes = context.sizes(x.shape[batch : batch + depth])
    if indices.data is not None and sizes.data is not None:
        data = np.where(indices.data < 0, indices.data + sizes.data, indices.data)
        return context.constant(data.astype(indices.data.dtype))
    sizes = build.cast(context, sizes, indices.dtype)
    zero = build.scalar(context, 0, indices)
    negative = build.binary(context, "LESS", indices, zero, DataType.BOOL)
    raised = build.binary(context, "ADD", indices, sizes)
    return context.emit("SELECT_V2", [negative, raised, indices], indices.shape, indices.dtype)


@lowers("GatherElements")
def gather_elements(context: Context, node: onnx_ir.Node) -> None:
    """GATHER_ND of single elements, whose indices along the other axes are their own."""
    x, indices = context.tensors(node)
    attribute = node.attributes.get("axis")
    axis = (attribute.as_int() if attribute is not None else 0) % x.rank
    shape = indices.shape
    indices = from_start(context, indices, x.shape[axis])
    if x.rank == 1:
        options = {"axis": 0, "batchDims": 0}
        made = context.emit("GATHER", [x, indices], shape, quant=x.quant, options=options)
    else:
        rows = index_vectors(context, indices, axis)
        made = _gather_nd(context, x, rows, (rows.shape[0],))
        made = build.reshape(context, made, shape)
    context.give(node.outputs[0], made)


def index_vectors(context: Context, indices: Tensor, axis: int) -> Tensor:
    """[n, rank]: for each element of ``indices`` where it stands, but along ``axis`` its value."""
    if known(indices.shape) is not None and indices.data is not None:
        places = np.indices(indices.data.shape, indices.data.dtype)
        places[axis] = indices.data
        return context.constant(np.ascontiguousarray(places.reshape(indices.rank, -1).T))
    count = indices.size if indices.size is not None else f"{context.node}?elements"
    columns = []
    for other in range(indices.rank):
        column = indices if other == axis else _places(context, indices, other)
        columns.append(build.reshape(context, column, (count, 1)))
    if len(columns) == 1:
        return columns[0]
    options = {"axis": 1, "fusedActivationFunction": 0}
    shape = (count, len(columns))
    return context.emit("CONCATENATION", columns, shape, indices.dtype, options=options)


def _places(context: Context, like: Tensor, axis: int) -> Tensor:
    """For each element of ``like`` its index along an axis."""
    shape = known(like.shape)
    if shape is not None:
        return context.constant(np.indices(shape, like.dtype.numpy())[axis])
    row = build.reshape(
        context,
        counted(context, like.shape[axis]),
        [like.shape[a] if a == axis else 1 for a in range(like.rank)],
    )
    whole = context.emit("BROADCAST_TO", [row, context.sizes(like.shape)], like.shape)
    return build.cast(context, whole, like.dtype)


def _own_index(context: Context, indices: Tensor, axis: int) -> Tensor:
    """[..., 1]: the index along one of the axes before the last."""
    shape = (*indices.shape[:-1], 1)
    sizes = known(shape)
    if sizes is not None:
        return context.constant(np.indices(sizes, indices.dtype.numpy())[axis])
    row = [indices.shape[axis] if a == axis else 1 for a in range(indices.rank)]
    numbers = build.reshape(context, counted(context, indices.shape[axis]), row)
    whole = context.emit("BROADCAST_TO", [numbers, context.sizes(shape)], shape)
    return build.cast(context, whole, indices.dtype)


def counted(context: Context, size: int | str) -> Tensor:
    """0, 1, ... up to a size: int32 [size]."""
    if isinstance(size, int):
        return context.constant(np.arange(size, dtype=np.int32))
    end = build.reshape(context, context.size(size), ())
    zero, one = (context.constant(np.asarray(number, np.int32)) for number in (0, 1))
    return context.emit("RANGE", [zero, end, one], (size,), DataType.INT32)
