"""Constants that Core ML unpacks by itself: integers with scales, indices into tables.

iOS 16 has them with one scale for each place along one axis, and with one table; iOS 18 with one
for each block, and integers of four bits. What a system hasn't is refused here, with the system
that has it; iOS 15 has neither, and gets the real numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.ir.refused import Refused
from emitters.coreml.context import Context, Var
from emitters.coreml.types import Array

OLDEST = 16
"""The oldest system that has them."""

_BLOCKS = 18
_BITS = (1, 2, 3, 4, 6, 8)
"""Of indices; three of them only from iOS 18 on."""


def blocks(
    context: Context, name: str, stored: Array, scale: Array, zero: Array | None = None
) -> Var:
    """(stored - zero) * scale, kept as it is stored.

    Args:
        context: Where it goes.
        name: What to call it.
        stored: int8 or uint8.
        scale: float32 or float16, of as many axes; each size divides that of ``stored``.
        zero: Of ``stored``'s type, shaped like ``scale``; None for 0.

    Raises:
        Refused: The target has no scales for blocks.
    """
    zero = None if zero is None or not np.any(zero) else zero
    if context.target >= _BLOCKS:
        narrow = _of_four_bits(context, stored, zero)
        return context.op("constexpr_blockwise_shift_scale", scale=scale, **narrow)
    if context.target < OLDEST:
        return context.const(_real(stored, scale, zero), name)
    axes = [axis for axis, size in enumerate(scale.shape) if size > 1]
    if len(axes) > 1 or any(scale.shape[axis] != stored.shape[axis] for axis in axes):
        raise Refused("weights with a scale for each block need iOS18", "--coreml-target iOS18")
    whole = np.zeros(scale.shape, stored.dtype) if zero is None else zero
    shape = (-1,) if axes else ()
    return context.op(
        "constexpr_affine_dequantize",
        quantized_data=stored,
        scale=scale.reshape(shape),
        zero_point=whole.reshape(shape),
        axis=np.int32(axes[0] if axes else 0),
    )


def _of_four_bits(context: Context, stored: Array, zero: Array | None) -> dict[str, Any]:
    """What is stored, in four bits where that is enough."""
    signed = stored.dtype == np.int8
    low, high = (-8, 7) if signed else (0, 15)
    parts = {"data": stored, **({} if zero is None else {"offset": zero})}
    if not all(low <= int(part.min()) and int(part.max()) <= high for part in parts.values()):
        return dict(parts)
    kind = context.types.int4 if signed else context.types.uint4
    narrow = context.types.nptype_from_builtin(kind)
    return {key: part.astype(narrow) for key, part in parts.items()}


def _real(stored: Array, scale: Array, zero: Array | None) -> Array:
    for axis, (size, count) in enumerate(zip(stored.shape, scale.shape, strict=True)):
        scale = scale.repeat(size // count, axis)
        zero = None if zero is None else zero.repeat(size // count, axis)
    whole = stored.astype(np.int32) - (0 if zero is None else zero.astype(np.int32))
    real: Array = (whole.astype(scale.dtype) * scale).astype(scale.dtype)
    return real


def lookup(context: Context, name: str, indices: Array, tables: Array) -> Var:
    """tables[indices], kept as indices of as few bits as the tables need.

    Args:
        context: Where it goes.
        name: What to call it.
        indices: uint8.
        tables: float32 or float16, of one more axis, the last: its numbers. Each other size
            divides that of ``indices``.

    Raises:
        Refused: The target has no tables for blocks.
    """
    bits = max(1, int(tables.shape[-1] - 1).bit_length())
    if context.target >= _BLOCKS:
        bits = next(known for known in _BITS if known >= bits)
        kind = getattr(context.types, f"uint{bits}")
        narrow = indices if bits == 8 else indices.astype(context.types.nptype_from_builtin(kind))
        return context.op(
            "constexpr_lut_to_dense", indices=narrow, lut=_padded(tables, bits)[..., None]
        )
    if tables.size != tables.shape[-1]:
        raise Refused("weights with a table for each block need iOS18", "--coreml-target iOS18")
    table = tables.reshape(-1)
    if context.target < OLDEST:
        return context.const(table[indices], name)
    bits = next(known for known in _BITS if known >= bits and known != 3)
    return context.op(
        "constexpr_lut_to_dense",
        indices=_packed(indices, bits),
        lut=_padded(table, bits),
        shape=np.asarray(indices.shape, np.uint32),
    )


def _padded(tables: Array, bits: int) -> Array:
    missing = (1 << bits) - tables.shape[-1]
    return np.pad(tables, [(0, 0)] * (tables.ndim - 1) + [(0, missing)])


def _packed(indices: Array, bits: int) -> Array:
    """Indices one after another, the first in the lowest bits of the first byte."""
    rows = np.pad(indices.reshape(-1), (0, -indices.size % 8)).reshape(-1, 8)
    words = np.zeros(len(rows), "<u8")  # eight indices are in as many bytes as one has bits
    for place in range(8):
        words |= rows[:, place].astype(np.uint64) << np.uint64(place * bits)
    whole = words.view(np.uint8).reshape(-1, 8)[:, :bits].reshape(-1)
    return whole[: -(-indices.size * bits // 8)]
