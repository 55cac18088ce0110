"""Parts of a tensor by ranges of indices, and elements put into larger ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.registry import lowers

_LARGEST_UPDATE = 1 << 20
_END = np.iinfo(np.int64).max
_START = np.iinfo(np.int64).min


@lowers("SLICE")
def slice_(ctx: Context) -> None:
    """Slice by begin and size, where a size of -1 is all that is left."""
    (value,) = ctx.moved(0)
    axes = ctx.ints(list(range(ctx.rank(0))))
    begin, size = ctx.integers(1), ctx.integers(2)
    if begin is not None and size is not None:
        ends = [b + s if s >= 0 else _END for b, s in zip(begin, size, strict=True)]
        end = ctx.ints(ends)
    else:
        sizes = ctx.int64(2)
        to_the_end = ctx.add("Less", sizes, ctx.ints([0]))
        end = ctx.add("Add", ctx.int64(1), sizes)
        end = ctx.add("Where", to_the_end, ctx.ints([_END]), end)
    ctx.set_moved(0, ctx.add("Slice", value, ctx.int64(1), end, axes))


@dataclass
class _Plan:
    """What a STRIDED_SLICE does: for each sliced dimension its number and the place of its
    begin, end and stride; dimensions that go; where in the result new ones come."""

    axes: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    shrunk: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)


@lowers("STRIDED_SLICE")
def strided_slice(ctx: Context) -> None:
    """Slice, Squeeze of the dimensions that are indexed, Unsqueeze of new ones.

    The masks are TensorFlow's (``tf.strided_slice``): bit i speaks of the i-th begin.
    """
    plan = _plan(ctx)
    (value,) = ctx.moved(0)
    if plan.axes:
        starts, ends, steps = _ranges(ctx, plan)
        value = ctx.add("Slice", value, starts, ends, ctx.ints(plan.axes), steps)
    if plan.shrunk:
        value = ctx.add("Squeeze", value, ctx.ints(plan.shrunk))
    if plan.new:
        value = ctx.add("Unsqueeze", value, ctx.ints(plan.new))
    ctx.set_moved(0, value)


def _plan(ctx: Context) -> _Plan:
    ellipsis, new, shrink = (
        int(ctx.option(f"{kind}Mask")) for kind in ("ellipsis", "newAxis", "shrinkAxis")
    )
    count, rank = ctx.shape(1)[0], ctx.rank(0)
    if count < 0:
        ctx.refuse("begins of free number")
    plan, axis, result = _Plan(), 0, 0
    for i in range(count):
        if ellipsis >> i & 1:
            later = sum(not new >> k & 1 for k in range(i + 1, count))
            result += rank - later - axis
            axis = rank - later
        elif new >> i & 1:
            plan.new.append(result)
            result += 1
        else:
            plan.axes.append(axis)
            plan.places.append(i)
            if shrink >> i & 1:
                plan.shrunk.append(axis)
            else:
                result += 1
            axis += 1
    return plan


def _ranges(ctx: Context, plan: _Plan) -> tuple[onnx_ir.Value, onnx_ir.Value, onnx_ir.Value]:
    """Starts, ends and steps of the sliced dimensions, constant where they can be."""
    strides = ctx.integers(3)
    if strides is None:
        ctx.refuse("strides that aren't constant")
    begin, end = ctx.integers(1), ctx.integers(2)
    steps = [1 if axis in plan.shrunk else strides[i] for axis, i in _pairs(plan)]
    if begin is not None and end is not None:
        starts, ends = _constant_ranges(ctx, plan, begin, end, steps)
        return ctx.ints(starts), ctx.ints(ends), ctx.ints(steps)
    return (*_computed_ranges(ctx, plan, steps), ctx.ints(steps))


def _pairs(plan: _Plan) -> list[tuple[int, int]]:
    return list(zip(plan.axes, plan.places, strict=True))


def _constant_ranges(
    ctx: Context, plan: _Plan, begin: list[int], end: list[int], steps: list[int]
) -> tuple[list[int], list[int]]:
    starts, ends = [], []
    for (axis, i), step in zip(_pairs(plan), steps, strict=True):
        first = begin[i]
        last = first + end[i] if ctx.option("offset", False) else end[i]
        if axis in plan.shrunk:
            last = first + 1 if first != -1 else _END
        else:
            first = _open_start(step) if _masked(ctx, "begin", i) else first
            last = _open_end(step) if _masked(ctx, "end", i) else last
        starts.append(first)
        ends.append(last)
    return starts, ends


def _masked(ctx: Context, which: str, i: int) -> bool:
    return bool(int(ctx.option(f"{which}Mask")) >> i & 1)


def _open_start(step: int) -> int:
    return 0 if step > 0 else _END


def _open_end(step: int) -> int:
    return _END if step > 0 else _START


def _computed_ranges(
    ctx: Context, plan: _Plan, steps: list[int]
) -> tuple[onnx_ir.Value, onnx_ir.Value]:
    begin, end = ctx.int64(1), ctx.int64(2)
    if ctx.option("offset", False):
        end = ctx.add("Add", begin, end)
    starts, ends = [], []
    for (axis, i), step in zip(_pairs(plan), steps, strict=True):
        first, last = (ctx.add("Gather", item, ctx.ints([i]), axis=0) for item in (begin, end))
        if axis in plan.shrunk:
            last = ctx.add("Add", first, ctx.ints([1]))
            is_last = ctx.add("Equal", first, ctx.ints([-1]))
            last = ctx.add("Where", is_last, ctx.ints([_END]), last)
        else:
            first = ctx.ints([_open_start(step)]) if _masked(ctx, "begin", i) else first
            last = ctx.ints([_open_end(step)]) if _masked(ctx, "end", i) else last
        starts.append(first)
        ends.append(last)
    return ctx.add("Concat", *starts, axis=0), ctx.add("Concat", *ends, axis=0)


@lowers("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(ctx: Context) -> None:
    """ScatterND of the update at the places that it covers; its start is moved so that it
    fits, as the kernel does."""
    sizes, update = ctx.shape(0), ctx.shape(1)
    if min((*sizes, *update), default=0) < 0:
        ctx.refuse("an operand or update of free size")
    if math.prod(update) > _LARGEST_UPDATE:
        ctx.refuse(f"an update of more than {_LARGEST_UPDATE} elements")
    room = ctx.ints([whole - part for whole, part in zip(sizes, update, strict=True)])
    start = ctx.add("Min", ctx.add("Max", ctx.int64(2), ctx.ints([0])), room)
    grid = np.stack(np.meshgrid(*map(np.arange, update), indexing="ij"), -1).astype(np.int64)
    places = ctx.add("Add", ctx.const(grid), start)
    operand, part = ctx.moved(0, 1)
    ctx.set_moved(0, ctx.add("ScatterND", operand, places, part))


@lowers("REVERSE_V2")
def reverse(ctx: Context) -> None:
    """Slice with steps of -1."""
    (value,) = ctx.moved(0)
    axes = ctx.integers(1)
    if axes is None:
        ctx.refuse("axes that aren't constant")
    count = len(axes)
    ends = ctx.ints([_START] * count), ctx.ints(axes), ctx.ints([-1] * count)
    ctx.set_moved(0, ctx.add("Slice", value, ctx.ints([_END] * count), *ends))


@lowers("REVERSE_SEQUENCE")
def reverse_sequence(ctx: Context) -> None:
    """ReverseSequence, which wants its two dimensions in front."""
    time, batch = int(ctx.option("seqDim")), int(ctx.option("batchDim"))
    rest = [axis for axis in range(ctx.rank(0)) if axis not in (time, batch)]
    order = [batch, time, *rest]
    (value,) = ctx.moved(0)
    value = ctx.transpose(value, order)
    value = ctx.add("ReverseSequence", value, ctx.int64(1), batch_axis=0, time_axis=1)
    ctx.set_moved(0, ctx.transpose(value, [order.index(axis) for axis in range(len(order))]))
