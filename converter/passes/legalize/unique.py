"""Unique, by comparing all elements (or slices along an axis) with one another.

    earliest[i]   the first j whose element is that of i
    place[i]      how many elements that are firsts come before it: smaller ones, or earlier ones
                  where the output isn't sorted. It is ONNX's inverse index

Source: the operator page ``Unique``.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.passes.legalize.builder import Builder, DataType, Value, rank
from converter.passes.legalize.formulas import Numbers


def unique(b: Builder, node: onnx_ir.Node) -> tuple[Value, ...]:
    x = node.inputs[0]
    assert x is not None
    if "axis" in node.attributes and rank(x):
        axis = number(node, "axis", 0) % rank(x)
    else:
        x, axis = b.reshape(x, [b.product(b.sizes(x))]), 0
    slices = _slices(b, x, axis)
    rows, columns = (b.unsqueeze(slices, [place]) for place in (1, 0))
    differs = b.cast(b.op("Not", b.op("Equal", rows, columns)), DataType.INT32)
    same = b.op("Sub", np.asarray(1, np.int32), b.reduce("ReduceMax", differs, [2], keep=False))
    own = Numbers.counted(b, b.size(slices, 0))
    earliest = b.op("ArgMax", same, axis=1, keepdims=0)
    first = b.op("Equal", earliest, own.content)
    if number(node, "sorted", 1):
        before = _smaller(b, rows, columns, differs)
    else:
        before = b.op("Less", own.content, b.unsqueeze(earliest, [1]))
    ahead = b.cast(b.op("And", before, b.unsqueeze(first, [0])), DataType.INT64)
    place = b.reduce("ReduceSum", ahead, [1], keep=False)
    found = b.squeeze(b.op("NonZero", first), [0])
    if number(node, "sorted", 1):  # where each of them belongs is known: no need to sort
        none = b.op("Sub", found, found)
        found = b.op("ScatterElements", none, b.op("Gather", place, found), found)
    equals = b.cast(b.reduce("ReduceSum", same, [1], keep=False), DataType.INT64)
    return b.op("Gather", x, found, axis=axis), found, place, b.op("Gather", equals, found)


def _slices(b: Builder, x: Value, axis: int) -> Value:
    """[count, elements of each]."""
    if x.dtype == DataType.BOOL:
        x = b.cast(x, DataType.INT32)
    x = b.transpose(x, [axis, *(other for other in range(rank(x)) if other != axis)])
    count, *rest = b.sizes(x)
    return b.reshape(x, [count, b.product(rest)])


def _smaller(b: Builder, rows: Value, columns: Value, differs: Value) -> Value:
    """Whether slice j comes before slice i, element by element: bool [count, count]."""
    where = b.op("ArgMax", differs, axis=2, keepdims=1)
    here = b.op("Equal", where, Numbers.counted(b, b.size(differs, 2)).content)
    decided = b.cast(b.op("And", here, b.op("Less", columns, rows)), DataType.INT32)
    return b.cast(b.reduce("ReduceMax", decided, [2], keep=False), DataType.BOOL)


REWRITES = {"Unique": unique}
