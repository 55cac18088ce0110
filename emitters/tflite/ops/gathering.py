"""Gather and its like, OneHot, TopK, Shape, Range."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.ops.arithmetic import select
from emitters.tflite.registry import Refused, lowers


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
    if small and x.dtype != DataType.FLOAT:
        raise Refused("the smallest of integers")
    if small:
        moved = build.unary(context, "NEG", moved)
    dims = (*moved.shape[:-1], k)
    values, indices = context.emit_many(
        "TOPK_V2",
        [moved, context.constant(np.asarray(k, np.int32))],
        [(dims, x.dtype, None), (dims, DataType.INT32, None)],
    )
    if small:
        values = build.unary(context, "NEG", values)
    context.give(node.outputs[0], build.transpose(context, values, back))
    whole = build.cast(context, build.transpose(context, indices, back), DataType.INT64)
    context.give(node.outputs[1], whole)


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
    """GATHER_ND, which has no batch axes."""
    x, indices = context.tensor(node.inputs[0]), context.tensor(node.inputs[1])
    batch = node.attributes.get("batch_dims")
    if batch is not None and batch.as_int():
        raise Refused("a GatherND with batch_dims")
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        raise Refused("a GatherND of indices whose length isn't known")
    if indices.data is None or indices.data.min(initial=0) < 0:
        indices = _each_from_start(context, indices, x, depth)
    shape = (*indices.shape[:-1], *x.shape[depth:])
    context.give(node.outputs[0], context.emit("GATHER_ND", [x, indices], shape, x.dtype))


def _each_from_start(context: Context, indices: Tensor, x: Tensor, depth: int) -> Tensor:
    """Index vectors that count from the start of each axis."""
    sizes = build.cast(context, context.sizes(x.shape[:depth]), indices.dtype)
    zero = build.scalar(context, 0, indices)
    negative = build.binary(context, "LESS", indices, zero, DataType.BOOL)
    return select(context, negative, build.binary(context, "ADD", indices, sizes), indices)
