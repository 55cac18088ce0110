"""What integers lie between, from what they are computed of: most are sizes and indices.

LiteRT computes more in int32 than in int64, the type that ONNX has them in.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir

from converter.ir.edit import constant_tensor, is_op
from converter.ir.facts import EXTREMES, INDEXES, MOVES
from emitters.tflite.graph import DataType

Bounds = tuple[int, int]

INT32: Bounds = (-(2**31), 2**31 - 1)

SIZE: Bounds = (0, 2**30)
"""Of sizes and indices along an axis: float32 as long is 4 GB, more than LiteRT's tensors have."""

_DEPTH = 32
"""Nodes that are looked through, one behind the other."""

_TYPES = {
    DataType.BOOL: (0, 1),
    DataType.INT8: (-(2**7), 2**7 - 1),
    DataType.INT16: (-(2**15), 2**15 - 1),
    DataType.INT32: INT32,
    DataType.UINT8: (0, 2**8 - 1),
    DataType.UINT16: (0, 2**16 - 1),
    DataType.UINT32: (0, 2**32 - 1),
}


def fits_int32(*values: onnx_ir.Value | None) -> bool:
    """Whether int32 holds whatever integers of these values."""
    found = [bounds(value) for value in values]
    return all(b is not None and INT32[0] <= b[0] and b[1] <= INT32[1] for b in found)


def bounds(value: onnx_ir.Value | None, depth: int = _DEPTH) -> Bounds | None:
    """The least and the greatest that a value of integers can be; None where it isn't known."""
    if value is None or depth == 0:
        return None
    stored = constant_tensor(value)
    if stored is not None:
        array = stored.numpy()
        whole = array.size and array.dtype.kind in "iub"
        return (int(array.min()), int(array.max())) if whole else None
    found = _computed(value, depth - 1)
    return found if found is not None else _TYPES.get(value.dtype) if value.dtype else None


def _computed(value: onnx_ir.Value, depth: int) -> Bounds | None:
    node = value.producer()
    if node is None:
        return None
    if is_op(node, *INDEXES) or (is_op(node, "TopK") and value is node.outputs[1]):
        return SIZE
    if is_op(node, *MOVES, *EXTREMES - {"MaxPool"}):  # whose second output holds places
        return bounds(node.inputs[0], depth)
    if is_op(node, "Cast"):
        source = node.inputs[0]
        whole = source is not None and source.dtype in (*_TYPES, DataType.INT64)
        return bounds(source, depth) if whole and value.dtype == DataType.INT64 else None
    several = _SEVERAL.get(node.op_type) if is_op(node, *_SEVERAL) else None
    if several is None:
        return None
    operands = [bounds(each, depth) for each in node.inputs[several[1] :]]
    known = [each for each in operands if each is not None]
    return several[0](known) if len(known) == len(operands) and known else None


def _union(operands: list[Bounds]) -> Bounds:
    return min(low for low, _ in operands), max(high for _, high in operands)


def _sum(operands: list[Bounds]) -> Bounds:
    return sum(low for low, _ in operands), sum(high for _, high in operands)


def _difference(operands: list[Bounds]) -> Bounds:
    (low, high), (least, most) = operands
    return low - most, high - least


def _product(operands: list[Bounds]) -> Bounds:
    ends = [x * y for x in operands[0] for y in operands[1]]
    return min(ends), max(ends)


def _quotient(operands: list[Bounds]) -> Bounds:
    (low, high), (least, _) = operands
    if low >= 0 and least > 0:
        return 0, high // least
    size = max(abs(low), abs(high))
    return -size, size


_SEVERAL: dict[str, tuple[Callable[[list[Bounds]], Bounds], int]] = {
    "Add": (_sum, 0),
    "Concat": (_union, 0),
    "Div": (_quotient, 0),
    "Max": (_union, 0),
    "Min": (_union, 0),
    "Mul": (_product, 0),
    "Range": (_union, 0),
    "Sub": (_difference, 0),
    "Where": (_union, 1),
}
"""Operators of several operands: what theirs give together, and which is the first."""
