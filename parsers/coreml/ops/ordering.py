"""Order and place of elements: topk, argsort, non_zero, and running sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.registry import reads
from parsers.coreml.sizes import Size, positive, rank, size, vector

_NARROW = {DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16}


@reads("topk")
def topk(reader: Reader, op: Operation) -> None:
    """TopK, sorted: where no order is asked for, any will do. A k of -1 takes all elements."""
    x = reader.value(op, "x")
    axis = positive(reader.setting(op, "axis", -1), rank(x))
    k = reader.setting(op, "k", 1)
    values, indices = _sorted(reader, op, k if k >= 0 else size(reader, x, axis), axis)
    if len(op.outputs) == 1:
        reader.give(op, values)
    else:
        reader.give(op, values, reader.cast(indices, op.outputs[1].type.dtype or DataType.INT32))


@reads("argsort")
def argsort(reader: Reader, op: Operation) -> None:
    """TopK's indices, of all elements."""
    x = reader.value(op, "x")
    axis = positive(reader.setting(op, "axis", -1), rank(x))
    _, indices = _sorted(reader, op, size(reader, x, axis), axis)
    reader.give(op, reader.cast(indices, op.outputs[0].type.dtype or DataType.INT32))


def _sorted(reader: Reader, op: Operation, k: Size, axis: int) -> Sequence[onnx_ir.Value]:
    largest = int(not reader.setting(op, "ascending", False))
    attributes = {"axis": axis, "largest": largest, "sorted": 1}
    x = reader.value(op, "x")
    dtype = x.dtype
    if dtype in _NARROW:
        x = reader.cast(x, DataType.INT32)  # ONNX Runtime has TopK for few of them
    values, indices = reader.nodes_of("TopK", [x, vector(reader, [k])], 2, attributes)
    indices.type = onnx_ir.TensorType(DataType.INT64)
    return values if dtype is None else reader.cast(values, dtype), indices


@reads("non_zero")
def non_zero(reader: Reader, op: Operation) -> None:
    """NonZero, a row for each element instead of a column."""
    found = reader.node("NonZero", [reader.value(op, "x")], dtype=DataType.INT64)
    rows = reader.node("Transpose", [found], {"perm": [1, 0]})
    reader.give(op, reader.cast(rows, DataType.INT32))


@reads("cumsum")
def cumsum(reader: Reader, op: Operation) -> None:
    axis = reader.const(reader.setting(op, "axis", 0), np.int64)
    settings = {name: int(reader.setting(op, name, False)) for name in ("exclusive", "reverse")}
    reader.give(op, reader.node("CumSum", [reader.value(op, "x"), axis], settings))
