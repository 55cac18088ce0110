"""Sizes of values, and shapes put together of sizes that are known and sizes that aren't."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.refusal import Refusal

Size = int | onnx_ir.Value
"""A size of an axis: a number, or a vector of one int64."""

FAR = int(np.iinfo(np.int64).max)
"""A slice's end that lies after every element."""


def sizes(x: onnx_ir.Value) -> list[int | None]:
    """The sizes of a value's axes, None for those that are free.

    Raises:
        Refusal: Not even the number of axes is known.
    """
    if x.shape is None:
        raise Refusal(f"the number of axes of {x.name} isn't known")
    return [dim if isinstance(dim, int) else None for dim in x.shape]


def rank(x: onnx_ir.Value) -> int:
    """The number of a value's axes.

    Raises:
        Refusal: It isn't known.
    """
    return len(sizes(x))


def part(reader: Reader, x: onnx_ir.Value, start: int, end: int | None = None) -> onnx_ir.Value:
    """Some of a value's sizes: a vector of int64.

    Args:
        reader: Takes the nodes.
        x: The value.
        start: The first axis.
        end: The axis behind the last one; None: to the end.
    """
    attributes = {"start": start} if end is None else {"start": start, "end": end}
    return reader.node("Shape", [x], attributes, DataType.INT64)


def size(reader: Reader, x: onnx_ir.Value, axis: int) -> Size:
    """An axis's size, a number where it is known.

    Args:
        reader: Takes the nodes.
        x: The value.
        axis: Not negative.
    """
    known = sizes(x)[axis]
    return part(reader, x, axis, axis + 1) if known is None else known


def vector(reader: Reader, parts: Sequence[Size]) -> onnx_ir.Value:
    """Numbers and vectors of int64, put together to one vector."""
    pieces: list[onnx_ir.Value] = []
    pending: list[int] = []
    for item in parts:
        if isinstance(item, int):
            pending.append(item)
            continue
        if pending:
            pieces.append(reader.ints(pending))
            pending = []
        pieces.append(item)
    if pending or not pieces:
        pieces.append(reader.ints(pending))
    return pieces[0] if len(pieces) == 1 else reader.node("Concat", pieces, {"axis": 0})


def reshape(reader: Reader, x: onnx_ir.Value, parts: Sequence[Size]) -> onnx_ir.Value:
    """The value in another shape; a part may be -1.

    Args:
        reader: Takes the nodes.
        x: The value.
        parts: The result's sizes; one may be -1.
    """
    return reader.node("Reshape", [x, vector(reader, parts)])


def whole(reader: Reader, op: Operation, parameter: str) -> onnx_ir.Value:
    """Integers that an operation is given, as int64: a constant where they are one.

    Args:
        reader: Takes the nodes.
        op: The operation.
        parameter: Its name.
    """
    known = reader.array(op, parameter)
    if known is not None:
        return reader.const(known, np.int64)
    return reader.int64(reader.value(op, parameter))


def positive(axis: int, axes: int) -> int:
    """An axis counted from the front.

    Raises:
        Refusal: There is no such axis.
    """
    if not -axes <= axis < axes:
        raise Refusal(f"it has no axis {axis}: there are {axes}")
    return axis % axes
