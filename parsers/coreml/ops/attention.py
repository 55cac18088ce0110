"""scaled_dot_product_attention, written out."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.registry import reads
from parsers.coreml.sizes import rank, size


@reads("scaled_dot_product_attention")
def scaled_dot_product_attention(reader: Reader, op: Operation) -> None:
    """softmax(query keyᵀ / √E + mask) value; a mask of booleans says what takes part."""
    query, key, value = (reader.value(op, name) for name in ("query", "key", "value"))
    axes = rank(key)
    perm = [*range(axes - 2), axes - 1, axes - 2]
    turned = reader.node("Transpose", [key], {"perm": perm})
    product = reader.node("MatMul", [query, turned])
    scores = reader.node("Div", [product, _root(reader, query, axes - 1)])
    mask = reader.optional(op, "attn_mask")
    if mask is not None and mask.dtype == DataType.BOOL:
        never = reader.number(-np.inf, query)
        scores = reader.node("Where", [mask, scores, never], dtype=query.dtype)
    elif mask is not None:
        scores = reader.node("Add", [scores, mask])
    weights = reader.node("Softmax", [scores], {"axis": -1})
    reader.give(op, reader.node("MatMul", [weights, value]))


def _root(reader: Reader, query: onnx_ir.Value, axis: int) -> onnx_ir.Value:
    width = size(reader, query, axis)
    if isinstance(width, int):
        return reader.number(float(np.sqrt(width)), query)
    assert query.dtype is not None
    return reader.cast(reader.node("Sqrt", [reader.cast(width, DataType.FLOAT)]), query.dtype)
