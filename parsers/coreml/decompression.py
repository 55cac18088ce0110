"""What compressed constants stand for, in numpy: as coremltools documents ``constexpr_*``."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def unpacked(packed: Array, bits: int, count: int, signed: bool = False) -> Array:
    """Numbers of some bits each, the first in the lowest bits of the first byte.

    Args:
        packed: Bytes.
        bits: Of one number, at most 8.
        count: How many numbers there are; the bits behind them are left.
        signed: Whether a number's highest bit is its sign: int8 is given then, else uint8.
    """
    # Eight numbers are in as many bytes as one has bits: those of a 64-bit word, then the next.
    rows = -(-count // 8)
    words = np.zeros((rows, 8), np.uint8)
    held = packed.view(np.uint8).reshape(-1)[: rows * bits]
    words[:, :bits] = np.pad(held, (0, rows * bits - held.size)).reshape(rows, bits)
    shifts = np.arange(0, 8 * bits, bits, dtype=np.uint64)
    mask = np.uint64((1 << bits) - 1)
    numbers = np.empty((rows, 8), np.uint8)
    for place, shift in enumerate(shifts):
        numbers[:, place] = (words.view("<u8")[:, 0] >> shift) & mask
    numbers = numbers.reshape(-1)[:count]
    if not signed:
        return numbers
    return (numbers.astype(np.int16) - ((numbers >> (bits - 1)).astype(np.int16) << bits)).astype(
        np.int8
    )


def repeated(x: Array, shape: tuple[int, ...]) -> Array:
    """Each element as often as the shape, along each axis a multiple of its own, asks for."""
    for axis, count in enumerate(shape):
        if x.shape[axis] != count:
            x = np.repeat(x, count // x.shape[axis], axis)
    return x


def shifted_and_scaled(data: Array, scale: Array, offset: Array | None) -> Array:
    """scale (data - offset), in the scale's type.

    Args:
        data: Integers of any shape.
        scale: One number without axes, or as many axes as ``data``, each number for a block.
        offset: Likewise; None: 0.
    """
    if scale.ndim:
        scale = repeated(scale, data.shape)
    values = data.astype(scale.dtype)
    if offset is not None:
        if offset.ndim:
            offset = repeated(offset, data.shape)
        values = values - offset.astype(scale.dtype)
    scaled: Array = scale * values
    return scaled


def looked_up(indices: Array, table: Array, axis: int | None) -> Array:
    """What indices find in their block's table.

    Args:
        indices: Of any shape.
        table: As many axes and two more: the entries, and each entry's numbers, which follow one
            another along ``axis``.
        axis: None where an entry is one number.
    """
    count, width = table.shape[-2:]
    blocks = table.shape[:-2]
    numbers = np.arange(int(np.prod(blocks, dtype=np.int64))).reshape(blocks)
    which = repeated(numbers, indices.shape)
    entries = table.reshape(-1, count, width)[which, indices.astype(np.int64)]
    if width == 1:
        single: Array = entries[..., 0]
        return single
    assert axis is not None
    at = axis % indices.ndim
    in_line = np.moveaxis(entries, -1, at + 1)
    shape = list(indices.shape)
    shape[at] *= width
    return in_line.reshape(shape)


def dense(values: Array, mask: Array) -> Array:
    """Zeros, and the values where the mask is set."""
    whole = np.zeros(mask.shape, values.dtype)
    whole[mask != 0] = values
    return whole
