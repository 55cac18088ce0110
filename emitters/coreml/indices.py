"""Indices as Core ML takes them: from the start of an axis.

ONNX's negative indices count from the end. From iOS17 on those are out of bounds in MIL's gather
and scatter, and what they do is undefined; before, only ``gather`` is documented to take them.
coremltools' pass ``guard_negative_gather_indices`` sees to ``gather`` from iOS17 on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.sizing import Size


def from_start(context: Context, indices: Var, size: Size) -> Var:
    """Indices along one axis, counted from its start.

    Args:
        context: Where they are computed.
        indices: int32, of any shape.
        size: The axis' size.
    """
    known = indices.val
    if known is not None:
        array = np.asarray(known)
        if array.min() >= 0:
            return indices
        if not free(size):
            return context.const(np.where(array < 0, array + size, array).astype(np.int32))
    raised = context.op("add", x=indices, y=_number(context, size, indices))
    inside = context.op("greater_equal", x=indices, y=np.int32(0))
    return context.op("select", cond=inside, a=indices, b=raised)


def _number(context: Context, size: Size, indices: Var) -> Var:
    """A size to add to indices: without axes where they have none, so that the sum hasn't."""
    if free(size) and indices.shape:
        return size
    return sizing.scalar(context, size)


def vectors_from_start(context: Context, indices: Var, dims: Sequence[Size]) -> Var:
    """Index vectors, each number counted from the start of its axis.

    Args:
        context: Where they are computed.
        indices: int32 [..., n].
        dims: The sizes of the n axes that they are for.
    """
    known = indices.val
    if known is not None and np.asarray(known).min() >= 0:
        return indices
    limits = sizing.vector(context, dims)
    if known is not None and isinstance(limits, np.ndarray):
        array = np.asarray(known)
        return context.const(np.where(array < 0, array + limits, array).astype(np.int32))
    raised = context.op("add", x=indices, y=limits)
    inside = context.op("greater_equal", x=indices, y=np.int32(0))
    return context.op("select", cond=inside, a=indices, b=raised)
