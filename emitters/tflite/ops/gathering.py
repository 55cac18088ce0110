"""Gather, GatherND, TopK, ReverseSequence, Shape, Range."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.never_negative import never_negative
from converter.ir.refused import Refused
from emitters.tflite import build, kernels
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.ops.arithmetic import select
from emitters.tflite.registry import lowers


@lowers("Gather", integer=True)
def gather(context: Context, node: onnx_ir.Node) -> None:
    """GATHER; ONNX's negative indices count from the end."""
    x, indices = context.tensor(node.inputs[0]), context.tensor(node.inputs[1])
    axis = number(node, "axis", 0) % x.rank
    if not never_negative(node.inputs[1]):
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
    """Indices that count from the start.

    Args:
        context: Where it goes.
        indices: Integers; negative ones count from the end.
        size: Of the axis that they index.
    """
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
    """TOPK_V2 along the last axis, largest first; the smallest, of the negated data. How many may
    be computed."""
    x = context.tensor(node.inputs[0])
    k = build.reshape(context, context.tensor(node.inputs[1]), ())
    axis = number(node, "axis", -1) % x.rank
    order = [a for a in range(x.rank) if a != axis] + [axis]
    back = [order.index(a) for a in range(x.rank)]
    moved = build.transpose(context, x, order)
    small = not number(node, "largest", 1)
    turned = _turned(context, moved) if small else moved
    count = int(k.data) if k.data is not None else context.shape(node.outputs[0])[axis]
    dims = (*moved.shape[:-1], count)
    values, indices = context.emit_many(
        "TOPK_V2",
        [turned, build.cast(context, k, DataType.INT32)],
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


@lowers("ReverseSequence")
def reverse_sequence(context: Context, node: onnx_ir.Node) -> None:
    """REVERSE_SEQUENCE; types that its kernel doesn't take go through a wider one."""
    x, lengths = context.tensors(node)
    options = {"seqDim": number(node, "time_axis", 0), "batchDim": number(node, "batch_axis", 1)}
    (wide,) = kernels.widened(context, "REVERSE_SEQUENCE", x)
    made = context.emit("REVERSE_SEQUENCE", [wide, lengths], x.shape, options=options)
    context.give(node.outputs[0], build.cast(context, made, x.dtype))


@lowers("Range")
def range_(context: Context, node: onnx_ir.Node) -> None:
    numbers = [build.reshape(context, tensor, ()) for tensor in context.tensors(node)]
    made = context.emit("RANGE", numbers, context.shape(node.outputs[0]))
    context.give(node.outputs[0], made)


@lowers("GatherND", legal=lambda node: not number(node, "batch_dims", 0))
def gather_nd(context: Context, node: onnx_ir.Node) -> None:
    """GATHER_ND, which has no batch axes."""
    x, indices = context.tensor(node.inputs[0]), context.tensor(node.inputs[1])
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        raise Refused("a GatherND with indices of unknown length")
    if x.dtype not in _GATHERED:
        raise Refused(f"GATHER_ND doesn't take {x.dtype.name.lower()}")
    shape = (*indices.shape[:-1], *x.shape[depth:])
    indices = limited_vectors(context, indices, x, depth)
    context.give(node.outputs[0], context.emit("GATHER_ND", [x, indices], shape, quant=x.quant))


_GATHERED = frozenset(
    {DataType.FLOAT, DataType.BOOL, DataType.INT8, DataType.UINT8, DataType.INT16, DataType.INT32,
     DataType.INT64}
)  # fmt: skip


def limited_vectors(context: Context, indices: Tensor, x: Tensor, depth: int) -> Tensor:
    """Index vectors that count from the start of each axis.

    Args:
        context: Where it goes.
        indices: Integers [..., depth]; negative ones count from the end.
        x: What they index.
        depth: How many leading axes of ``x`` a vector indexes.
    """
    if indices.data is not None and indices.data.min(initial=0) >= 0:
        return indices
    sizes = context.sizes(x.shape[:depth])
    if indices.data is not None and sizes.data is not None:
        data = np.where(indices.data < 0, indices.data + sizes.data, indices.data)
        return context.constant(data.astype(indices.data.dtype))
    sizes = build.cast(context, sizes, indices.dtype)
    zero = build.scalar(context, 0, indices)
    negative = build.binary(context, "LESS", indices, zero, DataType.BOOL)
    raised = build.binary(context, "ADD", indices, sizes)
    return context.emit("SELECT_V2", [negative, raised, indices], indices.shape, indices.dtype)


def counted(context: Context, size: int | str) -> Tensor:
    """0, 1, ... up to a size: int32 [size]."""
    if isinstance(size, int):
        return context.constant(np.arange(size, dtype=np.int32))
    end = build.reshape(context, context.size(size), ())
    zero, one = (context.constant(np.asarray(limit, np.int32)) for limit in (0, 1))
    return context.emit("RANGE", [zero, end, one], (size,), DataType.INT32)
