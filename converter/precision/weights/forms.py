"""The forms that weights alone are stored in, each as standard operators on constants.

    int8-weights    DequantizeLinear(int8 [as the weight], scale of each output channel)
    int4-weights    DequantizeLinear(int8 in [-8, 7] [blocks, block], scale of each, axis 0)
                    -> Reshape [-> Transpose]
    palettized      GatherElements(tables [groups, entries], Cast(uint8 [groups, size]), axis 1)
                    -> Reshape [-> Transpose]

Opset 20 has no scales for blocks and no integers of four bits: what a target stores in fewer bits,
its emitter recognizes. The Transpose is there where output channels aren't the weight's first axis.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.precision.int8.weights import store_weight, weight_scales
from converter.precision.weights.palettes import nearest, palette

Array = np.ndarray[Any, Any]

BLOCK = 32
"""Most input channels that share a scale in int4: what coremltools' ``linear_quantize_weights``
has for ``per_block``."""

SMALLEST_BLOCK = 8
"""Fewer would cost more for scales than four bits save."""

GROUP = 16
"""Fewest output channels that share a table, where the target has tables for groups."""

OVERHEAD = 1 / 8
"""The most that tables for groups may take, beside what they are for."""

_SHRINK = np.linspace(0.5, 1.05, 23, dtype=np.float32)
"""Shares of a block's largest magnitude that are tried as the limit; -8 reaches further than 7."""


@dataclass(frozen=True)
class Form:
    """One weight, stored.

    Attributes:
        kind: ``int8``, ``int4`` or ``palette``.
        stored: int8, or uint8 for places in tables.
        table: float32 or float16: the scales or tables.
        shape: That of the weight with output channels first; empty where ``stored`` has the
            weight's own.
        perm: Brings them back to where they were; empty where they are.
        axis: Of the scales in ``stored``.
    """

    kind: str
    stored: Array
    table: Array
    shape: tuple[int, ...] = ()
    perm: tuple[int, ...] = ()
    axis: int = 0


def as_int8(weight: Array, out: int, dtype: Any = np.float32) -> Form:
    """int8, symmetric, a scale for each output channel, as int8 schemes have it.

    Args:
        weight: float32.
        out: The axis of output channels.
        dtype: Of the scales.
    """
    scales = _typed(weight_scales(weight, out), dtype)
    return Form("int8", store_weight(weight, scales, out), scales, axis=out)


def block_of(channels: int) -> int:
    """How many of so many input channels share a scale in int4; 0 where no number will do."""
    fits = (size for size in range(BLOCK, SMALLEST_BLOCK - 1, -1) if channels % size == 0)
    return next(fits, 0)


def as_int4(
    weight: Array, out: int, into: int, counts: Array | None = None, dtype: Any = np.float32
) -> Form:
    """int4, symmetric, a scale for each block of input channels of an output channel.

    Args:
        weight: float32.
        out: The axis of output channels.
        into: The axis of input channels; :func:`block_of` of their number isn't 0.
        counts: How much each weight's squared error counts, above 0; None for all alike.
        dtype: Of the scales.
    """
    first, back = channels_first(weight, out, into)
    block = block_of(first.shape[1])
    rows = first.reshape(first.shape[0] * (first.shape[1] // block), -1)
    each = None if counts is None else channels_first(counts, out, into)[0].reshape(rows.shape)
    scales = _scales_of_four_bits(rows, each, dtype)
    stored = _rounded(rows, scales).astype(np.int8)
    return Form("int4", stored, scales, first.shape, back)


def group_of(channels: int, size: int, bits: int) -> int:
    """How many output channels share a table: a multiple of :data:`GROUP` that divides them, for
    which the tables take no more than :data:`OVERHEAD`; all where there is none.

    Args:
        channels: Output channels.
        size: Numbers of each.
        bits: Of a place in the table.
    """
    table = 4 << bits
    fewest = table / (OVERHEAD * size * bits / 8)
    fits = (n for n in range(GROUP, channels, GROUP) if channels % n == 0 and n >= fewest)
    return next(fits, channels)


def as_palette(
    weight: Array,
    out: int,
    bits: int,
    *,
    grouped: bool,
    counts: Array | None = None,
    dtype: Any = np.float32,
) -> Form:
    """Places in a table of ``2 ** bits`` numbers.

    Args:
        weight: float32.
        out: The axis of output channels.
        bits: Of a place, 1 to 8.
        grouped: Whether groups of output channels may have a table each.
        counts: How much each weight's squared error counts, above 0; None for all alike.
        dtype: Of the tables.
    """
    channels = weight.shape[out]
    groups = channels // group_of(channels, weight.size // channels, bits) if grouped else 1
    first, back = channels_first(weight, out, None) if groups > 1 else (weight, ())
    rows = first.reshape(groups, -1)
    each = [None] * groups
    if counts is not None:
        counts = channels_first(counts, out, None)[0] if groups > 1 else counts
        each = list(counts.reshape(rows.shape))

    def made(row: Array, own: Array | None) -> tuple[Array, Array]:
        table = np.unique(palette(row, 1 << bits, own).astype(dtype))
        return table, nearest(row, table)

    with ThreadPoolExecutor(min(groups, os.cpu_count() or 1)) as pool:  # NumPy's sorts run at once
        found, places = zip(*pool.map(made, rows, each), strict=True)
    longest = max(table.size for table in found)
    tables = np.stack([np.pad(table, (0, longest - table.size), "edge") for table in found])
    stored = np.stack(places)
    return Form("palette", stored, tables, first.shape, back)


def channels_first(weight: Array, out: int, into: int | None) -> tuple[Array, tuple[int, ...]]:
    """A weight with output channels first, then input channels.

    Args:
        weight: Any dtype.
        out: The axis of output channels.
        into: The axis of input channels; None to leave it where it is.

    Returns:
        The weight, and the permutation that undoes that; empty where nothing moved.
    """
    named = [out] if into is None else [out, into]
    order = [*named, *(axis for axis in range(weight.ndim) if axis not in named)]
    if order == list(range(weight.ndim)):
        return weight, ()
    back = tuple(int(place) for place in np.argsort(order))
    return np.ascontiguousarray(weight.transpose(order)), back


def _scales_of_four_bits(rows: Array, counts: Array | None, dtype: Any) -> Array:
    """For each row, of the limits that are tried, the scale with the smallest squared error."""
    largest = np.abs(rows).max(axis=1)
    best = np.full(len(rows), np.inf, np.float32)
    scales = np.ones(len(rows), dtype)
    for share in _SHRINK:
        tried = _typed(largest * (share / 7), dtype)
        wide = tried.astype(np.float32)
        error = np.square(_rounded(rows, wide) * wide[:, None] - rows)
        total = (error if counts is None else error * counts).sum(axis=1)
        better = total < best
        best, scales = np.where(better, total, best), np.where(better, tried, scales)
    return np.where(largest > 0, scales, scales.dtype.type(1))


def _typed(scales: Array, dtype: Any) -> Array:
    """Scales in their type, none of them 0: they are rounded first, then weights by them."""
    info = np.finfo(dtype)
    least = info.smallest_subnormal if info.bits == 16 else info.tiny
    return np.clip(scales, least, info.max).astype(dtype)


def _rounded(rows: Array, scales: Array) -> Array:
    return np.clip(np.rint(rows / scales[:, None]), -8, 7)


def real(form: Form, shape: Sequence[int]) -> Array:
    """The weight that a form stands for, as its operators compute it."""
    if form.kind == "palette":
        made = np.take_along_axis(form.table, form.stored.astype(np.int64), axis=1)
    else:
        spread = [-1 if axis == form.axis else 1 for axis in range(form.stored.ndim)]
        made = form.stored.astype(np.float32) * form.table.reshape(spread).astype(np.float32)
    made = made.astype(np.float32).reshape(form.shape or shape)
    return made.transpose(form.perm) if form.perm else made
