"""Tensors made of numbers and shapes: fill, range_1d, one_hot; and those cut to a band."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.registry import reads
from parsers.coreml.sizes import part, positive, rank, whole


@reads("fill")
def fill(reader: Reader, op: Operation) -> None:
    reader.give(op, _filled(reader, op, whole(reader, op, "shape")))


@reads("fill_like")
def fill_like(reader: Reader, op: Operation) -> None:
    """ConstantOfShape, of another's shape."""
    reader.give(op, _filled(reader, op, part(reader, reader.value(op, "ref_tensor"), 0)))


def _filled(reader: Reader, op: Operation, shape: onnx_ir.Value) -> onnx_ir.Value:
    dtype = op.outputs[0].type.dtype or DataType.FLOAT
    number = onnx_ir.Tensor(np.asarray([reader.setting(op, "value", 0)], dtype.numpy()))
    return reader.node("ConstantOfShape", [shape], {"value": number}, dtype)


@reads("range_1d")
def range_1d(reader: Reader, op: Operation) -> None:
    """Range; float16 is counted in float32, which ONNX has it for."""
    given = [reader.value(op, name) for name in ("start", "end", "step")]
    dtype = given[0].dtype
    if dtype == DataType.FLOAT16:
        given = [reader.cast(value, DataType.FLOAT) for value in given]
    found = reader.node("Range", given)
    reader.give(op, reader.cast(found, dtype) if dtype is not None else found)


@reads("one_hot")
def one_hot(reader: Reader, op: Operation) -> None:
    """Each index compared with all places: one that is no place (also one below 0, which ONNX's
    OneHot would count from the end) is nowhere."""
    indices = reader.int64(reader.value(op, "indices"))
    axes = rank(reader.value(op, "indices")) + 1
    axis = positive(reader.setting(op, "axis", -1), axes)
    apart = reader.node("Unsqueeze", [indices, reader.ints([axis])])
    trailing = [1] * (axes - axis - 1)
    places = _places(reader, op)
    if trailing:
        places = reader.node("Reshape", [places, reader.ints([-1, *trailing])])
    hot = reader.node("Equal", [apart, places], dtype=DataType.BOOL)
    dtype = op.outputs[0].type.dtype or DataType.FLOAT
    held = DataType.UINT8 if dtype == DataType.BOOL else dtype  # ONNX Runtime's Where has no bool
    on, off = (
        reader.const(reader.setting(op, name, default), held.numpy())
        for name, default in (("on_value", 1), ("off_value", 0))
    )
    reader.give(op, reader.cast(reader.node("Where", [hot, on, off], dtype=held), dtype))


def _places(reader: Reader, op: Operation) -> onnx_ir.Value:
    known = reader.array(op, "one_hot_vector_size")
    if known is not None:
        return reader.ints(range(int(known.item())))
    depth = reader.int64(reader.value(op, "one_hot_vector_size"))
    return reader.node("Range", [reader.const(0, np.int64), depth, reader.const(1, np.int64)])


@reads("band_part")
def band_part(reader: Reader, op: Operation) -> None:
    """Trilu, once for each side that is cut."""
    y = reader.value(op, "x")
    dtype = y.dtype
    if dtype == DataType.INT32:
        y = reader.int64(y)  # ONNX Runtime has Trilu for int64, and none for int32
    lower, upper = reader.setting(op, "lower", -1), reader.setting(op, "upper", -1)
    if lower >= 0:
        y = reader.node("Trilu", [y, reader.const(-lower, np.int64)], {"upper": 1})
    if upper >= 0:
        y = reader.node("Trilu", [y, reader.const(upper, np.int64)], {"upper": 0})
    if lower < 0 and upper < 0:
        y = reader.node("Identity", [y])
    reader.give(op, reader.cast(y, dtype) if dtype is not None else y)
