"""Elements by indices: OneHot, and what GatherND and ScatterND do with an index for each axis.

    GatherElements    GatherND at [i, j, indices[i, j, k]]
    ScatterElements   ScatterND there
    GatherND          of batches: where each stands along their axes, before its own indices

Source: the operator pages of these names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.attributes import number, text
from converter.ir.never_negative import never_negative
from converter.ir.refused import Refused
from converter.passes.legalize.builder import (
    Array,
    Builder,
    DataType,
    Free,
    Operand,
    Size,
    Value,
    rank,
)
from converter.passes.legalize.formulas import Numbers


def gather_elements(b: Builder, node: onnx_ir.Node) -> Value:
    x, indices = node.inputs
    assert x is not None and indices is not None
    made = b.op("GatherND", x, _vectors(b, node, indices, x))
    return b.reshape(made, b.sizes(indices))


def scatter_elements(b: Builder, node: onnx_ir.Node) -> Value:
    x, indices, updates = node.inputs
    assert x is not None and indices is not None and updates is not None
    flat = b.reshape(updates, [b.product(b.sizes(indices))])
    reduction = text(node, "reduction", "none")
    return b.op("ScatterND", x, _vectors(b, node, indices, x), flat, reduction=reduction)


def _vectors(b: Builder, node: onnx_ir.Node, indices: Value, x: Value) -> Operand:
    """Where each index points: int64 [elements, axes]."""
    if not rank(x):
        raise Refused(f"a {node.op_type} of a tensor without axes")
    axis, known, sizes = number(node, "axis", 0) % rank(x), b.constant(indices), b.sizes(indices)
    if known is not None:
        places = np.indices(known.shape)
        places[axis] = known
        return places.reshape(rank(x), -1).T
    count, wide = b.product(sizes), b.cast(indices, DataType.INT64)
    columns = [wide if a == axis else _places(b, sizes, a) for a in range(rank(x))]
    return b.op("Concat", *(_column(b, column, count) for column in columns), axis=1)


def _column(b: Builder, x: Array | Value, count: Size) -> Array | Value:
    return b.reshape(x, [count, 1]) if isinstance(x, Value) else x.reshape(-1, 1)


def _places(b: Builder, sizes: Sequence[Size], axis: int) -> Array | Value:
    """For each element of a tensor its index along an axis: int64, of these sizes."""
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(sizes):
        return np.asarray(np.indices(known)[axis])
    row = Numbers.counted(b, sizes[axis]).expanded(range(1, len(sizes) - axis))
    made = b.op("Expand", row.content, b.vector(sizes))
    made.shape = onnx_ir.Shape([size if isinstance(size, int) else size.name for size in sizes])
    return made


def gather_nd(b: Builder, node: onnx_ir.Node) -> Value | None:
    x, indices = node.inputs
    assert x is not None and indices is not None
    batch = number(node, "batch_dims", 0)
    if not batch:
        return None
    sizes = [*b.sizes(indices)[:-1], 1]
    own = [_places(b, sizes, axis) for axis in range(batch)]
    return b.op("GatherND", x, b.op("Concat", *own, indices, axis=-1))


# -- OneHot ------------------------------------------------------------------------------


def one_hot(b: Builder, node: onnx_ir.Node) -> Value:
    """Each index compared with 0, 1, ... : of one out of bounds no element is "on"."""
    indices, depth, values = node.inputs
    assert indices is not None and depth is not None and values is not None
    known, given = b.constant(depth), b.constant(values)
    size: Size = Free(None, lambda: b.reshape(b.cast(depth, DataType.INT64), [1]))
    if known is not None:
        size = int(known.item())
    axis = number(node, "axis", -1) % (rank(indices) + 1)
    whole = b.cast(indices, DataType.INT64)
    if not never_negative(indices):
        raised = b.op("Add", whole, Numbers.of_size(b, size, DataType.INT64).content)
        whole = b.op("Where", b.op("Less", whole, b.number(0, whole)), raised, whole)
    row = Numbers.counted(b, size).expanded(range(1, 1 + rank(indices) - axis))
    hot = b.op("Equal", b.unsqueeze(whole, [axis]), row.content)
    if given is not None and given.ravel().tolist() == [0, 1]:
        assert values.dtype is not None
        return b.cast(hot, values.dtype)
    off, on = (b.op("Gather", values, np.asarray(place)) for place in (0, 1))
    return b.op("Where", hot, on, off)


REWRITES = {
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "OneHot": one_hot,
    "ScatterElements": scatter_elements,
}
