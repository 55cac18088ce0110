"""Elements taken from where indices say, and chosen between two."""

from __future__ import annotations

import onnx_ir

from parsers.coreml.bounds import indices
from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.registry import reads
from parsers.coreml.sizes import positive, rank, sizes


@reads("gather")
def gather(reader: Reader, op: Operation) -> None:
    """Gather; of each batch its own, GatherND."""
    x, axis = reader.value(op, "x"), reader.setting(op, "axis", 0)
    batch = reader.setting(op, "batch_dims", 0)
    axis = positive(axis, rank(x))
    where = indices(reader, op, x, [axis])
    if not batch:
        reader.give(op, reader.node("Gather", [x, where], {"axis": axis}))
        return
    moved = [*range(batch), axis, *(at for at in range(batch, rank(x)) if at != axis)]
    front = x if axis == batch else reader.node("Transpose", [x], {"perm": moved})
    apart = reader.node("Unsqueeze", [where, reader.ints([-1])])
    y = reader.node("GatherND", [front, apart], {"batch_dims": batch})
    new = rank(reader.value(op, "indices")) - batch
    reader.give(op, _back(reader, y, batch, axis - batch, new, rank(x) - 1 - axis))


def _back(
    reader: Reader, y: onnx_ir.Value, batch: int, before: int, new: int, after: int
) -> onnx_ir.Value:
    """The axes that indices brought, from behind the batch's to where the gathered axis was."""
    if not before or not new:
        return y
    first = batch + new
    perm = [
        *range(batch),
        *range(first, first + before),
        *range(batch, first),
        *range(first + before, first + before + after),
    ]
    return reader.node("Transpose", [y], {"perm": perm})


@reads("gather_along_axis")
def gather_along_axis(reader: Reader, op: Operation) -> None:
    x = reader.value(op, "x")
    axis = positive(reader.setting(op, "axis", 0), rank(x))
    inputs = [x, indices(reader, op, x, [axis])]
    reader.give(op, reader.node("GatherElements", inputs, {"axis": axis}))


@reads("gather_nd")
def gather_nd(reader: Reader, op: Operation) -> None:
    x, batch = reader.value(op, "x"), reader.setting(op, "batch_dims", 0)
    depth = sizes(reader.value(op, "indices"))[-1]
    axes = range(batch, rank(x) if depth is None else batch + depth)
    inputs = [x, indices(reader, op, x, axes)]
    reader.give(op, reader.node("GatherND", inputs, {"batch_dims": batch}))


@reads("select")
def select(reader: Reader, op: Operation) -> None:
    """Where; of booleans, which ONNX Runtime has it not for, what it means."""
    condition, a, b = (reader.value(op, name) for name in ("cond", "a", "b"))
    dtype = op.outputs[0].type.dtype
    if dtype is not None:
        a, b = reader.cast(a, dtype), reader.cast(b, dtype)
    if dtype == DataType.BOOL:
        one = reader.node("And", [condition, a])
        other = reader.node("And", [reader.node("Not", [condition]), b])
        reader.give(op, reader.node("Or", [one, other]))
    else:
        reader.give(op, reader.node("Where", [condition, a, b], dtype=a.dtype))
