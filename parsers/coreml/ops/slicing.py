"""Parts of a tensor: slices, their update, windows, and elements in reverse order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import FAR, part, positive, rank, reshape, size, sizes, whole

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Slice:
    """What ONNX's Slice takes for each axis, and which axes go afterwards."""

    starts: onnx_ir.Value
    ends: onnx_ir.Value
    steps: onnx_ir.Value
    squeezed: list[int]

    def of(self, reader: Reader, x: onnx_ir.Value) -> onnx_ir.Value:
        """The slice of a value, with all its axes."""
        axes = reader.ints(range(rank(x)))
        return reader.node("Slice", [x, self.starts, self.ends, axes, self.steps])


def _slice(reader: Reader, op: Operation, axes: int) -> _Slice:
    """begin, end, stride and the masks, as numpy's slices mean them: a masked begin is the first
    element in the stride's direction, a masked end lies after the last; an axis to be squeezed
    has one element, at begin."""
    steps = np.asarray(reader.setting(op, "stride", [1] * axes), np.int64)
    squeezed = _mask(reader, op, "squeeze_mask", axes)
    steps = np.where(squeezed, 1, steps)
    back = steps < 0
    starts = _masked(
        reader, whole(reader, op, "begin"), _mask(reader, op, "begin_mask", axes), back, True
    )
    ends = whole(reader, op, "end")
    if squeezed.any():
        ends = _where(reader, squeezed, _next(reader, starts), ends)
    masked = _mask(reader, op, "end_mask", axes) & ~squeezed
    ends = _masked(reader, ends, masked, back, False)
    gone = [axis for axis in range(axes) if squeezed[axis]]
    return _Slice(starts, ends, reader.ints(steps.tolist()), gone)


def _mask(reader: Reader, op: Operation, parameter: str, axes: int) -> Array:
    return np.asarray(reader.setting(op, parameter, [False] * axes), bool)


def _masked(
    reader: Reader, given: onnx_ir.Value, mask: Array, back: Array, begin: bool
) -> onnx_ir.Value:
    """What is given, and where the mask is set the first or the last place."""
    if not mask.any():
        return given
    extreme = np.where(back, FAR, 0) if begin else np.where(back, -FAR, FAR)
    return _where(reader, mask, reader.ints(extreme.tolist()), given)


def _where(reader: Reader, mask: Array, one: onnx_ir.Value, other: onnx_ir.Value) -> onnx_ir.Value:
    if one.const_value is not None and other.const_value is not None:
        chosen = np.where(mask, one.const_value.numpy(), other.const_value.numpy())
        return reader.ints(chosen.tolist())
    return reader.node("Where", [reader.const(mask), one, other], dtype=DataType.INT64)


def _next(reader: Reader, starts: onnx_ir.Value) -> onnx_ir.Value:
    """The ends of slices of one element; after the last element (-1) it is far away, not 0."""
    if starts.const_value is not None:
        known = starts.const_value.numpy()
        return reader.ints(np.where(known == -1, FAR, known + 1).tolist())
    last = reader.node("Equal", [starts, reader.ints([-1])], dtype=DataType.BOOL)
    following = reader.node("Add", [starts, reader.ints([1])])
    return reader.node("Where", [last, reader.ints([FAR]), following], dtype=DataType.INT64)


@reads("slice_by_index")
def slice_by_index(reader: Reader, op: Operation) -> None:
    """Slice, then Squeeze of the axes of one element each that squeeze_mask names."""
    x = reader.value(op, "x")
    found = _slice(reader, op, rank(x))
    y = found.of(reader, x)
    if found.squeezed:
        y = reader.node("Squeeze", [y, reader.ints(found.squeezed)])
    reader.give(op, y)


@reads("slice_update")
def slice_update(reader: Reader, op: Operation) -> None:
    """The elements' numbers are sliced in the same way, and the update is scattered to them."""
    x, update = reader.value(op, "x"), reader.value(op, "update")
    shape = part(reader, x, 0)
    count = reader.node("Size", [x], dtype=DataType.INT64)
    zero, one = reader.const(0, np.int64), reader.const(1, np.int64)
    numbers = reader.node("Range", [zero, count, one])
    numbered = reader.node("Reshape", [numbers, shape])
    numbered.shape = x.shape
    places = reshape(reader, _slice(reader, op, rank(x)).of(reader, numbered), [-1])
    flat, flat_update = reshape(reader, x, [-1]), reshape(reader, update, [-1])
    written = reader.node("ScatterElements", [flat, places, flat_update], {"axis": 0})
    reader.give(op, reader.node("Reshape", [written, shape]))


@reads("slice_by_size")
def slice_by_size(reader: Reader, op: Operation) -> None:
    """Slice; a size of -1 takes what follows, and a begin below 0 counts from the end."""
    x = reader.value(op, "x")
    begin, length = whole(reader, op, "begin"), whole(reader, op, "size")
    ends = _ends(reader, begin, length)
    axes, steps = reader.ints(range(rank(x))), reader.ints([1] * rank(x))
    reader.give(op, reader.node("Slice", [x, begin, ends, axes, steps]))


def _ends(reader: Reader, begin: onnx_ir.Value, length: onnx_ir.Value) -> onnx_ir.Value:
    if begin.const_value is not None and length.const_value is not None:
        start, count = begin.const_value.numpy(), length.const_value.numpy()
        to_last = (count == -1) | ((start < 0) & (start + count >= 0))
        return reader.ints(np.where(to_last, FAR, start + count).tolist())
    zero, far = reader.ints([0]), reader.ints([FAR])
    end = reader.node("Add", [begin, length])
    rest = reader.node("Equal", [length, reader.ints([-1])], dtype=DataType.BOOL)
    negative = reader.node("Less", [begin, zero], dtype=DataType.BOOL)
    over = reader.node("GreaterOrEqual", [end, zero], dtype=DataType.BOOL)
    to_last = reader.node("Or", [rest, reader.node("And", [negative, over])])
    return reader.node("Where", [to_last, far, end], dtype=DataType.INT64)


@reads("sliding_windows")
def sliding_windows(reader: Reader, op: Operation) -> None:
    """Gather, by a table of which elements each window has."""
    x, axis = reader.value(op, "x"), reader.setting(op, "axis")
    width, stride = reader.setting(op, "size"), reader.setting(op, "stride", 1)
    axis = positive(axis, rank(x))
    known = sizes(x)[axis]
    within = np.arange(width, dtype=np.int64)
    if known is not None:
        firsts = np.arange((known - width) // stride + 1, dtype=np.int64) * stride
        table = reader.const(firsts[:, None] + within)
    else:
        table = _windows(reader, x, axis, width, stride)
    reader.give(op, reader.node("Gather", [x, table], {"axis": axis}))


def _windows(reader: Reader, x: onnx_ir.Value, axis: int, width: int, stride: int) -> onnx_ir.Value:
    total = size(reader, x, axis)
    assert isinstance(total, onnx_ir.Value)
    scalar = reader.node("Squeeze", [total, reader.ints([0])])
    end = reader.node("Sub", [scalar, reader.const(width - 1, np.int64)])
    zero, step = reader.const(0, np.int64), reader.const(stride, np.int64)
    firsts = reader.node("Range", [zero, end, step])
    column = reader.node("Unsqueeze", [firsts, reader.ints([1])])
    return reader.node("Add", [column, reader.ints(range(width))])


@reads("reverse")
def reverse(reader: Reader, op: Operation) -> None:
    """Slice, backwards, along the axes that are named, or all."""
    x, axes = reader.value(op, "x"), reader.setting(op, "axes")
    axes = list(range(rank(x))) if axes is None else axes
    if not axes:
        reader.give(op, reader.node("Identity", [x]))
        return
    starts, ends = reader.ints([-1] * len(axes)), reader.ints([-FAR] * len(axes))
    steps = reader.ints([-1] * len(axes))
    reader.give(op, reader.node("Slice", [x, starts, ends, reader.ints(axes), steps]))


@reads("reverse_sequence")
def reverse_sequence(reader: Reader, op: Operation) -> None:
    """ReverseSequence, with its two axes moved to the front."""
    x = reader.value(op, "x")
    time = positive(reader.setting(op, "seq_axis", 0), rank(x))
    batch = positive(reader.setting(op, "batch_axis", 0), rank(x))
    if time == batch:
        raise Refusal("its seq_axis and batch_axis are the same")
    perm = [batch, time, *(axis for axis in range(rank(x)) if axis not in (batch, time))]
    moved = reader.node("Transpose", [x], {"perm": perm})
    settings = {"batch_axis": 0, "time_axis": 1}
    turned = reader.node("ReverseSequence", [moved, whole(reader, op, "lengths")], settings)
    back = [perm.index(axis) for axis in range(rank(x))]
    reader.give(op, reader.node("Transpose", [turned], {"perm": back}))
