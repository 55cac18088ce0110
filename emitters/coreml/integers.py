"""Integers of every width in int32: what wraps around where the type that is meant is narrower.

ONNX Runtime's integers wrap around. int32 holds what 8 and 16 bits do, and sums and products of
them; types of 32 and 64 bits are held as far as their numbers fit.
"""

from __future__ import annotations

from emitters.coreml.context import Context, Var
from emitters.coreml.types import DataType

_UNSIGNED = (
    DataType.UINT4,
    DataType.UINT8,
    DataType.UINT16,
    DataType.UINT32,
    DataType.UINT64,
)
_SIGNED = (DataType.INT4, DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64)


def is_integer(dtype: DataType) -> bool:
    """Whether it is an integer type, signed or not."""
    return dtype in _UNSIGNED or dtype in _SIGNED


def is_unsigned(dtype: DataType) -> bool:
    """Whether it has no negative numbers."""
    return dtype in _UNSIGNED


def width(dtype: DataType) -> int:
    """Bits of an integer type."""
    return int(dtype.bitwidth)


def fits(source: DataType, target: DataType) -> bool:
    """Whether an integer type holds every number of another; of 32 and 64 bits, those that int32
    holds."""
    if width(target) >= 32:
        return True
    if is_unsigned(source):
        return width(source) + (not is_unsigned(target)) <= width(target)
    return not is_unsigned(target) and width(source) <= width(target)


def remainder(context: Context, x: Var, y: Var) -> Var:
    """What is left of ``x`` after as many ``y`` as go into it, rounded down; its sign is that of
    ``y``. MIL's ``mod`` doesn't say whose sign its result has: it is for what isn't negative.

    Args:
        context: Where it goes.
        x: int32.
        y: int32, of a shape that broadcasts with that of ``x``.
    """
    whole = context.op("floor_div", x=x, y=y)
    return context.op("sub", x=x, y=context.op("mul", x=whole, y=y))


def wrapped(context: Context, x: Var, dtype: DataType) -> Var:
    """Integers as a type of fewer than 32 bits has them: modulo 2^bits, into its range. Others
    stay as they are.

    Args:
        context: Where it goes.
        x: int32.
        dtype: The type that is meant.
    """
    if not is_integer(dtype) or width(dtype) >= 32:
        return x
    span = context.const(1 << width(dtype))
    if is_unsigned(dtype):
        return remainder(context, x, span)
    half = context.const(1 << (width(dtype) - 1))
    shifted = remainder(context, context.op("add", x=x, y=half), span)
    return context.op("sub", x=shifted, y=half)
