"""Operations that keep the elements and change the shape: transpose, reshape, squeeze ..."""

from __future__ import annotations

from typing import cast

import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import part, rank, size, sizes, vector, whole


@reads("transpose")
def transpose(reader: Reader, op: Operation) -> None:
    x, perm = reader.value(op, "x"), reader.setting(op, "perm")
    axes = len(perm)
    reader.give(op, reader.node("Transpose", [x], {"perm": [axis % axes for axis in perm]}))


@reads("expand_dims")
def expand_dims(reader: Reader, op: Operation) -> None:
    axes = reader.ints(reader.setting(op, "axes"))
    reader.give(op, reader.node("Unsqueeze", [reader.value(op, "x"), axes]))


@reads("squeeze")
def squeeze(reader: Reader, op: Operation) -> None:
    """Squeeze; of all axes of size 1 where none are named. Named axes that are known to be of
    another size stay as they are, and so do free ones where none are named."""
    x, axes = reader.value(op, "x"), reader.setting(op, "axes")
    known = sizes(x)
    if axes is None:
        gone = [axis for axis, dim in enumerate(known) if dim == 1]
    else:
        gone = [axis for axis in axes if known[axis] in (1, None)]
    reader.give(op, reader.node("Squeeze", [x, reader.ints(gone)]))


@reads("reshape")
def reshape(reader: Reader, op: Operation) -> None:
    """Reshape. A 0 stands for the size of x's axis that lies as far from the last one (from iOS17
    on; before, both have as many axes), or for 1 where there is none; ONNX's counts from the
    first."""
    x = reader.value(op, "x")
    target = reader.array(op, "shape")
    if target is not None:
        shape = _constant_shape(reader, x, [int(item) for item in target])
    else:
        shape = _computed_shape(reader, op, x)
    reader.give(op, reader.node("Reshape", [x, shape]))


def _constant_shape(reader: Reader, x: onnx_ir.Value, target: list[int]) -> onnx_ir.Value:
    if 0 not in target or rank(x) == len(target):
        return reader.ints(target)
    behind = rank(x) - len(target)
    parts = [
        item if item else size(reader, x, at + behind) if at + behind >= 0 else 1
        for at, item in enumerate(target)
    ]
    return vector(reader, parts)


def _computed_shape(reader: Reader, op: Operation, x: onnx_ir.Value) -> onnx_ir.Value:
    shape = whole(reader, op, "shape")
    declared = op.outputs[0].type.shape
    if x.shape is None or declared is None or rank(x) == len(declared) or not _may_be_zero(shape):
        return shape
    missing = len(declared) - rank(x)
    if missing > 0:
        inherited = vector(reader, [*[1] * missing, part(reader, x, 0)])
    else:
        inherited = part(reader, x, -missing)
    zero = reader.node("Equal", [shape, reader.ints([0])], dtype=DataType.BOOL)
    return reader.node("Where", [zero, inherited, shape], dtype=DataType.INT64)


def _may_be_zero(shape: onnx_ir.Value) -> bool:
    """Whether a constant that goes into a computed shape is a 0: no size is."""
    node = shape.producer()
    if shape.const_value is not None:
        return bool((shape.const_value.numpy() == 0).any())
    if node is None or node.op_type not in ("Concat", "Cast", "Unsqueeze", "Reshape", "Squeeze"):
        return False
    given = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    return any(_may_be_zero(item) for item in given if item is not None)


@reads("reshape_like")
def reshape_like(reader: Reader, op: Operation) -> None:
    """Reshape, to what the types of the tensors that it looks at say: they have to be known."""
    declared = op.outputs[0].type.shape
    if declared is None or None in declared:
        raise Refusal("its shape isn't known in advance")
    shape = reader.ints(cast("list[int]", list(declared)))
    reader.give(op, reader.node("Reshape", [reader.value(op, "x"), shape]))


@reads("flatten2d")
def flatten2d(reader: Reader, op: Operation) -> None:
    axis = reader.setting(op, "axis", 1)
    reader.give(op, reader.node("Flatten", [reader.value(op, "x")], {"axis": axis}))


@reads("shape")
def shape(reader: Reader, op: Operation) -> None:
    found = part(reader, reader.value(op, "x"), 0)
    reader.give(op, reader.cast(found, op.outputs[0].type.dtype or DataType.INT32))
