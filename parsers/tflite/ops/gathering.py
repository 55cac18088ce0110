"""Elements by their indices: gathered, and scattered."""

from __future__ import annotations

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.ops.elementwise import operand, set_result
from parsers.tflite.registry import lowers


@lowers("GATHER")
def gather(ctx: Context) -> None:
    """Gather; GatherND where leading dimensions of both go together."""
    axis = int(ctx.option("axis")) % max(ctx.rank(0), 1)
    batch = int(ctx.option("batchDims")) % max(ctx.rank(1), 1)
    (value,) = ctx.moved(0)
    if not batch:
        ctx.set_moved(0, ctx.add("Gather", value, ctx.raw(1), axis=axis))
        return
    ctx.set_moved(0, _gather_in_batches(ctx, value, axis, batch))


def _gather_in_batches(ctx: Context, value: onnx_ir.Value, axis: int, batch: int) -> onnx_ir.Value:
    """The gathered dimension is brought behind the batch ones, and what the indices gave back
    to its place."""
    rank, new = ctx.rank(0), ctx.rank(1) - batch
    if axis != batch:
        rest = [k for k in range(batch, rank) if k != axis]
        value = ctx.transpose(value, [*range(batch), axis, *rest])
    indices = ctx.add("Unsqueeze", ctx.int64_like(1), ctx.ints([-1]))
    value = ctx.add("GatherND", value, indices, batch_dims=batch)
    if axis == batch:
        return value
    between = axis - batch  # dimensions of the value that come before what the indices gave
    order = [*range(batch), *range(batch + new, batch + new + between), *range(batch, batch + new)]
    return ctx.transpose(value, [*order, *range(len(order), rank - 1 + new)])


@lowers("GATHER_ND")
def gather_nd(ctx: Context) -> None:
    (value,) = ctx.moved(0)
    ctx.set_moved(0, ctx.add("GatherND", value, ctx.int64_like(1)))


@lowers("EMBEDDING_LOOKUP")
def embedding_lookup(ctx: Context) -> None:
    """Gather of rows; the indices come first."""
    ctx.set(0, ctx.add("Gather", ctx.value(1), ctx.raw(0), axis=0))


@lowers("SCATTER_ND")
def scatter_nd(ctx: Context) -> None:
    """ScatterND onto zeros; what goes to one place is added."""
    updates = operand(ctx, 1)
    wide = onnx_ir.DataType.INT32
    dtype = ctx.dtype(1) if updates is ctx.value(1) else wide
    if dtype == onnx_ir.DataType.BOOL:
        ctx.refuse("scattered bools")
    zero = onnx_ir.tensor([0], dtype=dtype)
    zeros = ctx.add("ConstantOfShape", ctx.int64(2), value=zero)
    set_result(ctx, ctx.add("ScatterND", zeros, ctx.int64_like(0), updates, reduction="add"))


@lowers("UNIQUE")
def unique(ctx: Context) -> None:
    """Unique in the order of first appearance, with the place of each element in it; of integers
    in 64 bits, which ONNX Runtime has it for."""
    is_float = ctx.dtype(0) == onnx_ir.DataType.FLOAT
    value = ctx.value(0) if is_float else ctx.cast(ctx.value(0), onnx_ir.DataType.INT64)
    values, _, places = ctx.add_many("Unique", 3, value, sorted=0)
    ctx.set(0, values if is_float else ctx.cast(values, ctx.output_dtype()))
    ctx.set(1, ctx.cast(places, ctx.output_dtype(1)))


@lowers("SEGMENT_SUM")
def segment_sum(ctx: Context) -> None:
    """Rows added where their sorted segment numbers are equal; there are as many results as
    the last number says."""
    last = ctx.add("Gather", ctx.int64_like(1), ctx.ints([-1]), axis=0)
    count = ctx.add("Add", last, ctx.ints([1]))
    ctx.set(0, _by_segment(ctx, count, 0.0, "add"))


_SEGMENTS = {
    "UNSORTED_SEGMENT_SUM": ("add", 0.0),
    "UNSORTED_SEGMENT_PROD": ("mul", 1.0),
    "UNSORTED_SEGMENT_MAX": ("max", -3.4028234663852886e38),
    "UNSORTED_SEGMENT_MIN": ("min", 3.4028234663852886e38),
}


@lowers(*_SEGMENTS)
def unsorted_segment(ctx: Context) -> None:
    """Rows combined where their segment numbers are equal."""
    if ctx.dtype(0) != onnx_ir.DataType.FLOAT and ctx.name != "UNSORTED_SEGMENT_SUM":
        ctx.refuse("segments of integers")
    reduction, start = _SEGMENTS[ctx.name]
    ctx.set(0, _by_segment(ctx, ctx.int64(2), start, reduction))


def _by_segment(ctx: Context, count: onnx_ir.Value, start: float, reduction: str) -> onnx_ir.Value:
    """ScatterND of rows onto ``count`` rows of ``start``."""
    if ctx.rank(1) != 1:
        ctx.refuse("segment numbers that aren't a vector")
    row = ctx.add("Shape", ctx.value(0), start=1)
    shape = ctx.add("Concat", count, row, axis=0) if ctx.rank(0) > 1 else count
    dtype = ctx.dtype(0)
    blank = ctx.add("ConstantOfShape", shape, value=onnx_ir.tensor([start], dtype=dtype))
    places = ctx.add("Unsqueeze", ctx.int64_like(1), ctx.ints([-1]))
    return ctx.add("ScatterND", blank, places, ctx.value(0), reduction=reduction)
