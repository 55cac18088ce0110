"""What several readings do with values: their sizes, and parameters brought to a type or rank."""

from __future__ import annotations

import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.sizes import rank

DataType = onnx_ir.DataType


def size_of(x: onnx_ir.Value, axis: int) -> int | None:
    """A value's size along an axis; None where it is free."""
    if x.shape is None:
        return None
    size = x.shape[axis]
    return size if isinstance(size, int) else None


def like(reader: Reader, op: Operation, parameter: str, x: onnx_ir.Value) -> onnx_ir.Value | None:
    """An optional parameter in an operand's type; from iOS17 on it may have another.

    Args:
        reader: Takes the nodes.
        op: The operation.
        parameter: Its name.
        x: The operand whose type the result has.

    Returns:
        None where the parameter is left out.
    """
    found = reader.optional(op, parameter)
    return None if found is None or x.dtype is None else reader.cast(found, x.dtype)


def per_channel(reader: Reader, op: Operation, parameter: str, x: onnx_ir.Value) -> onnx_ir.Value:
    """A vector with a number for each channel (axis 1), shaped so that it broadcasts with x.

    Args:
        reader: Takes the nodes.
        op: The operation.
        parameter: Its name: a vector with a number for each channel.
        x: [batch, channels, ...].

    Raises:
        Refusal: The parameter is left out.
    """
    vector = like(reader, op, parameter, x)
    if vector is None:
        raise Refusal(f"it has no {parameter}")
    axes = list(range(1, rank(x) - 1))
    return reader.node("Unsqueeze", [vector, reader.ints(axes)]) if axes else vector
