"""Tensors of nothing but sizes and numbers."""

from __future__ import annotations

from emitters.code.context import Context
from emitters.code.keras.ops.shaping import need_sizes
from emitters.code.keras.registry import op
from emitters.code.keras.types import keras_type
from emitters.code.shapes import as_tuple, filling, steps_of


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
    whole = as_tuple(c, need_sizes(c, 0))
    c.emit(f"ops.full({whole}, {filling(c)}, dtype={keras_type(c.out_dtype())})")


@op("Range")
def arange(c: Context) -> None:
    """Numbers in steps."""
    c.emit(f"ops.arange({', '.join(steps_of(c))}, dtype={keras_type(c.out_dtype())})")


@op("EyeLike")
def eye(c: Context) -> None:
    """Ones on a diagonal."""
    dtype = keras_type(c.out_dtype())
    c.emit(f"{c.helper('eye_like')}({c.arg(0)}, {c.attr('k', 0)}, {dtype})")
