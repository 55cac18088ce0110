"""Lists of tensors of one shape: a tensor with an axis more, the first."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import part, vector

INT64 = DataType.INT64


@reads("make_list")
def make_list(reader: Reader, op: Operation) -> None:
    """Zeros: what an element holds before it is written isn't said. Whether a list grows only this
    operation says; where any does, all are taken to."""
    if reader.setting(op, "dynamic_length", True):
        _root(reader).lists_grow = True
    declared = op.outputs[0].type
    if declared.dtype is None or declared.shape is None or None in declared.shape[1:]:
        raise Refusal("the shape of its elements isn't known in advance")
    elements = [int(size) for size in declared.shape[1:] if size is not None]
    length = _vector(reader, op, "init_length") if reader.has(op, "init_length") else 1
    shape = vector(reader, [length, *elements])
    zero = onnx_ir.Tensor(np.zeros(1, declared.dtype.numpy()))
    made = reader.node("ConstantOfShape", [shape], {"value": zero}, declared.dtype)
    reader.give(op, made)


@reads("list_length")
def list_length(reader: Reader, op: Operation) -> None:
    length = part(reader, reader.value(op, "ls"), 0, 1)
    scalar = reader.node("Squeeze", [length, reader.ints([0])])
    reader.give(op, reader.cast(scalar, DataType.INT32))


@reads("list_read")
def list_read(reader: Reader, op: Operation) -> None:
    inputs = [reader.value(op, "ls"), reader.value(op, "index")]
    reader.give(op, reader.node("Gather", inputs, {"axis": 0}))


@reads("list_gather")
def list_gather(reader: Reader, op: Operation) -> None:
    inputs = [reader.value(op, "ls"), reader.value(op, "indices")]
    reader.give(op, reader.node("Gather", inputs, {"axis": 0}))


@reads("list_write")
def list_write(reader: Reader, op: Operation) -> None:
    index = _vector(reader, op, "index")
    value = reader.node("Unsqueeze", [reader.value(op, "value"), reader.ints([0])])
    reader.give(op, _written(reader, op, index, value))


@reads("list_scatter")
def list_scatter(reader: Reader, op: Operation) -> None:
    indices = _vector(reader, op, "indices")
    reader.give(op, _written(reader, op, indices, reader.value(op, "value")))


def _root(reader: Reader) -> Reader:
    return reader if reader.outer is None else _root(reader.outer)


def _vector(reader: Reader, op: Operation, parameter: str) -> onnx_ir.Value:
    """Indices as a vector of int64."""
    known = reader.array(op, parameter)
    if known is not None:
        return reader.ints(known.ravel().tolist())
    found = reader.int64(reader.value(op, parameter))
    return reader.node("Reshape", [found, reader.ints([-1])])


def _written(
    reader: Reader, op: Operation, indices: onnx_ir.Value, values: onnx_ir.Value
) -> onnx_ir.Value:
    """The list with values written; one whose length isn't fixed grows to the last index."""
    old = reader.value(op, "ls")
    if _root(reader).lists_grow:
        old = _grown(reader, old, indices)
    column = reader.node("Unsqueeze", [indices, reader.ints([1])])
    return reader.node("ScatterND", [old, column, values])


def _grown(reader: Reader, old: onnx_ir.Value, indices: onnx_ir.Value) -> onnx_ir.Value:
    length, rest = part(reader, old, 0, 1), part(reader, old, 1)
    last = reader.node("ReduceMax", [indices, reader.ints([0])], {"keepdims": 1})
    needed = reader.node("Add", [last, reader.ints([1])])
    missing = reader.node("Max", [reader.node("Sub", [needed, length]), reader.ints([0])])
    shape = vector(reader, [missing, rest])
    assert old.dtype is not None
    zero = onnx_ir.Tensor(np.zeros(1, old.dtype.numpy()))
    more = reader.node("ConstantOfShape", [shape], {"value": zero}, old.dtype)
    return reader.node("Concat", [old, more], {"axis": 0})
