"""Indices into axes, and where they are out of bounds.

Until iOS16, as in ONNX, what is below 0 counts from the end. From iOS17 on it is out of bounds
(coremltools, ``iOS17.scatter_gather``: "Behavior for out-of-bound indices is undefined"), so that
nothing may come of it here but an error: a program has to count from the start itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.sizes import FAR, sizes, whole

_WITHOUT_NEGATIVE = 17


def indices(reader: Reader, op: Operation, x: onnx_ir.Value, axes: Sequence[int]) -> onnx_ir.Value:
    """Where something is gathered from or scattered to, as int64.

    Args:
        reader: Where nodes go.
        op: An operation with ``indices``.
        x: What they are indices into.
        axes: Of one axis, or of index vectors into several, one after the other.

    Returns:
        The indices; where they are computed and negative ones are out of bounds, those are made
        far larger than any axis, which ONNX Runtime refuses.

    Raises:
        Refusal: A constant one is below 0 where that is out of bounds.
    """
    known = reader.array(op, "indices")
    found = whole(reader, op, "indices")
    if reader.target < _WITHOUT_NEGATIVE:
        return found
    if known is None:
        given = reader.value(op, "indices")
        if _is_positive(given, [sizes(x)[axis] for axis in axes]):
            return found
        below = reader.node("Less", [found, reader.const(0, np.int64)], dtype=_BOOL)
        return reader.node("Where", [below, reader.const(FAR, np.int64), found], dtype=_INT64)
    if (known < 0).any():
        raise Refusal(
            f"its indices go down to {known.min()}, and since iOS17 an index below 0 is out "
            "of bounds"
        )
    return found


_BOOL, _INT64 = onnx_ir.DataType.BOOL, onnx_ir.DataType.INT64
_UNSIGNED = (onnx_ir.DataType.UINT8, onnx_ir.DataType.UINT16)


def _is_positive(x: onnx_ir.Value, limits: Sequence[int | None]) -> bool:
    """Whether indices are unsigned, or what Apple's documentation has them made:
    ``select(index >= 0, index, index + size)``, of the sizes that they are for."""
    if x.dtype in _UNSIGNED:
        return True
    choice = x.producer()
    if choice is None or choice.op_type != "Where":
        return False
    condition, index, raised = choice.inputs
    least = _inputs(condition, "GreaterOrEqual")
    terms = _inputs(raised, "Add")
    if not least or not terms or least[0] is not index or terms[0] is not index:
        return False
    zero, added = _constant(least[1]), _constant(terms[1])
    if zero is None or added is None or None in limits:
        return False
    return not zero.any() and np.array_equal(added.ravel(), np.asarray(limits))


def _inputs(x: onnx_ir.Value | None, kind: str) -> Sequence[onnx_ir.Value | None]:
    maker = None if x is None else x.producer()
    return maker.inputs if maker is not None and maker.op_type == kind else ()


def _constant(x: onnx_ir.Value | None) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None:
    if x is None or x.const_value is None:
        return None
    return np.asarray(x.const_value.numpy(), np.int64)
