"""Tensors of nothing but sizes and numbers."""

from __future__ import annotations

import numpy as np

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras.ops.shaping import as_tuple, need_sizes
from emitters.code.keras.registry import COMPUTED, op
from emitters.code.keras.types import keras_type
from emitters.code.literals import number


@op("Shape")
def shape(c: Context) -> None:
    """The sizes as a tensor, where it is one that is asked for."""
    start, end = c.attr("start", 0), c.attr("end")
    part = f"[{start or ''}:{'' if end is None else end}]" if start or end is not None else ""
    sizes = f"ops.shape({c.arg(0)}){part}"
    count = c.node.outputs[0].shape
    if count is not None and len(count) == 1 and count[0] == 0:
        c.emit('ops.zeros((0,), dtype="int64")')
    else:
        c.emit(f'ops.cast(ops.stack({sizes}), "int64")')


@op("Size")
def size(c: Context) -> None:
    """How many elements there are."""
    c.emit(f'ops.cast(ops.size({c.arg(0)}), "int64")')


@op("ConstantOfShape")
def constant_of_shape(c: Context) -> None:
    """One number everywhere."""
    value = c.attr("value")
    array = value.numpy() if value is not None else np.zeros(1, np.float32)
    whole = as_tuple(c, need_sizes(c, 0))
    dtype = keras_type(c.out_dtype())
    c.emit(f"ops.full({whole}, {number(array.reshape(-1)[0])}, dtype={dtype})")


@op("Range")
def arange(c: Context) -> None:
    """Numbers in steps."""
    ends = []
    for at in range(3):
        sizes, value = c.sizes(at), c.number(at)
        if value is not None:
            ends.append(number(np.asarray(c.array(at)).reshape(-1)[0]))
        elif sizes:
            ends.append(c.element(sizes[0]))
        else:
            raise Refused(COMPUTED, "make its ends and step constant")
    if ends[2] in ("1", "1.0"):
        ends = ends[1:2] if ends[0] in ("0", "0.0") else ends[:2]
    c.emit(f"ops.arange({', '.join(ends)}, dtype={keras_type(c.out_dtype())})")


@op("EyeLike")
def eye(c: Context) -> None:
    """Ones on a diagonal."""
    dtype = keras_type(c.out_dtype())
    c.emit(f"{c.helper('eye_like')}({c.arg(0)}, {c.attr('k', 0)}, {dtype})")
