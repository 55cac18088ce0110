"""Counts how often values of each size occur, exactly and in one pass, whatever comes next.

Bins are aligned to powers of two and zero, so that a bin of a wider histogram is always made of
whole bins of a narrower one: where a later array reaches further, pairs of bins are merged, and
the counts are those that the final layout would have given from the start. Hence they don't
depend on the order of the arrays, nor on how the values were split among them.

With ``2^(top+1)`` above every magnitude, magnitudes are counted

- from ``2^(top-3)`` on in linear bins ``2^(top-11)`` wide: 2048 to 4096 of them lie between zero
  and the largest magnitude, as many as the entropy method wants;
- below that in 128 bins an octave, so that a bin is at most 1/128 of its magnitude wide however
  far an outlier lies above the rest;
- below ``2^-48`` in one bin, which is where exact zeros are. No scale in use tells such numbers
  from zero (:data:`converter.precision.calibrate.thresholds.NARROWEST`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FLOOR = -48
"""log2 of the magnitude below which values count as zero."""

LINEAR = 4096
_LINEAR_FROM = 256  # the first linear bin: those below it are the logarithmic ones
_OCTAVE = 128
_BIAS = 127  # of float32's exponent
_CODE_SHIFT = 16  # leaves sign, exponent and 7 bits of the fraction: 128 codes an octave
_FIRST_CODE = (FLOOR + _BIAS) * _OCTAVE
_LOWEST_TOP = FLOOR + 3
_OFFSET = _FIRST_CODE - 1 + _LINEAR_FROM  # what an index is too large by as it is computed
_BLOCK = 1 << 15  # values at a time, so that what is made on the way stays in the CPU's cache
_PIECE = 1 << 18  # values counted at a time: eight bytes of memory each


@dataclass(frozen=True)
class Bins:
    """The occupied bins of a histogram in ascending order.

    Attributes:
        low, high: Edges of each bin, float64 [n]; both 0 for the values counted as zero.
        count: Values in each bin, int64 [n].
    """

    low: Array
    high: Array
    count: Array

    @property
    def total(self) -> int:
        """How many values there are."""
        return int(self.count.sum())


class Histogram:
    """Counts of one tensor's values, negative and positive ones apart.

    Attributes:
        top: ``2^(top+1)`` is above every magnitude counted.
        positive: Counts of magnitudes, int64, ``[zeros | logarithmic | linear]``.
        negative: The same for values below zero; None until there are any. Its zeros are those
            negative values whose magnitude counts as zero.
    """

    def __init__(self, top: int = _LOWEST_TOP) -> None:
        self.top = top
        self.positive: Array = np.zeros(bin_count(top), np.int64)
        self.negative: Array | None = None

    def add(self, values: Array, largest: float, *, signed: bool) -> None:
        """Counts values.

        Args:
            values: float32, contiguous, any shape, all finite.
            largest: The largest magnitude among them.
            signed: Whether there are negative ones.
        """
        self.widen(top_for(largest))
        if signed and self.negative is None:
            self.negative = np.zeros_like(self.positive)
        flat, size = values.reshape(-1), self.positive.size
        for start in range(0, flat.size, _PIECE):
            index = _indices(flat[start : start + _PIECE], self.top, size if signed else 0)
            counts = np.bincount(index, minlength=_OFFSET + 2 * size)[_OFFSET:]
            self.positive += counts[:size]
            if signed and self.negative is not None:
                self.negative += counts[size:]

    def merge(self, other: Histogram) -> None:
        """Adds another histogram's counts; that one is left as it is."""
        theirs = other.copy()
        theirs.widen(self.top)
        self.widen(theirs.top)
        self.positive += theirs.positive
        if theirs.negative is not None:
            if self.negative is None:
                self.negative = np.zeros_like(self.positive)
            self.negative += theirs.negative

    def copy(self) -> Histogram:
        """A histogram with the same counts."""
        copied = Histogram(self.top)
        copied.positive = self.positive.copy()
        copied.negative = None if self.negative is None else self.negative.copy()
        return copied

    def widen(self, top: int) -> None:
        """Makes room for magnitudes below ``2^(top+1)``, merging pairs of bins."""
        while self.top < top:
            self.positive = _widened(self.positive)
            if self.negative is not None:
                self.negative = _widened(self.negative)
            self.top += 1

    def bins(self, *, folded: bool = False) -> Bins:
        """The occupied bins, ascending; those of magnitudes where ``folded``."""
        edges = bin_edges(self.top)
        low = np.concatenate([[0.0], edges[1:-1]])
        high = np.concatenate([[0.0], edges[2:]])
        negative = np.zeros_like(self.positive) if self.negative is None else self.negative
        count = self.positive + negative
        if not folded:
            count[1:] -= negative[1:]
            low, high = np.concatenate([-high[:0:-1], low]), np.concatenate([-low[:0:-1], high])
            count = np.concatenate([negative[:0:-1], count])
        occupied = count > 0
        return Bins(low[occupied], high[occupied], count[occupied])

    @property
    def linear_magnitudes(self) -> tuple[Array, float]:
        """Counts of magnitudes in equal bins from zero on, int64 [4096], and a bin's width.

        Exact: logarithmic bins are nowhere wider, and lie each in one. Without the zeros.
        """
        magnitudes = self.positive if self.negative is None else self.positive + self.negative
        width = 2.0 ** (self.top - 11)
        split = magnitudes.size - (LINEAR - _LINEAR_FROM)
        edges = bin_edges(self.top)[1:split]
        inner = (edges / width).astype(np.int64)
        below = np.bincount(inner, weights=magnitudes[1:split], minlength=_LINEAR_FROM)
        return np.concatenate([below.astype(np.int64), magnitudes[split:]]), width


def top_for(largest: float) -> int:
    """The smallest ``top`` with which a histogram takes the magnitude ``largest``."""
    if largest < 2.0**_LOWEST_TOP:
        return _LOWEST_TOP
    return max(int(np.frexp(np.float32(largest))[1]) - 1, _LOWEST_TOP)


def bin_count(top: int) -> int:
    """How many bins a histogram has for each sign."""
    return 1 + (top - 3 - FLOOR) * _OCTAVE + LINEAR - _LINEAR_FROM


def bin_edges(top: int) -> Array:
    """Edges of the bins of magnitudes, float64 [bins + 1], the zeros' first."""
    codes = np.arange(_FIRST_CODE, (top - 3 + _BIAS) * _OCTAVE, dtype=np.uint32)
    logarithmic = (codes << np.uint32(_CODE_SHIFT)).view(np.float32).astype(np.float64)
    linear = np.arange(_LINEAR_FROM, LINEAR + 1) * 2.0 ** (top - 11)
    return np.concatenate([[0.0], logarithmic, linear])


def _widened(counts: Array) -> Array:
    """The counts in the layout for ``top + 1``."""
    split = counts.size - (LINEAR - _LINEAR_FROM)
    lowest, rest = counts[split : split + _LINEAR_FROM], counts[split + _LINEAR_FROM :]
    return np.concatenate(
        [
            counts[:split],
            lowest.reshape(-1, 2).sum(axis=1),
            rest.reshape(-1, 2).sum(axis=1),
            np.zeros(LINEAR // 2, np.int64),
        ]
    )


def _indices(values: Array, top: int, negative: int) -> Array:
    """The bin of each value plus :data:`_OFFSET`, int64 [values].

    It is found without branches: the float's upper bits, clipped to the logarithmic bins, plus
    the linear bin, clipped to the linear ones. One of the two is always at its end. (Of NumPy's
    functions, clip is several times as fast as maximum and minimum.)

    Args:
        values: float32 [values].
        top: The histogram's.
        negative: What is added for values below zero; 0 where there are none.
    """
    found = np.empty(values.size, np.int64)
    size = min(values.size, _BLOCK)
    room = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.float32)
    lowest = np.int32((_FIRST_CODE - 1) << _CODE_SHIFT)
    highest = np.int32(((top - 3 + _BIAS) * _OCTAVE) << _CODE_SHIFT)
    scale = np.float32(2.0 ** (11 - top))
    for start in range(0, values.size, _BLOCK):
        block = values[start : start + _BLOCK]
        code, linear, scaled = (array[: block.size] for array in room)
        bits = block.view(np.int32)
        if negative:
            np.bitwise_and(bits, np.int32(0x7FFFFFFF), out=code)
            block, magnitude = code.view(np.float32), code
        else:
            magnitude = bits  # of -0.0 the smallest integer, which counts as zero too
        np.multiply(block, scale, out=scaled)
        np.clip(scaled, np.float32(_LINEAR_FROM), np.float32(LINEAR), out=scaled)
        np.copyto(linear, scaled, casting="unsafe")
        np.clip(magnitude, lowest, highest, out=code)
        np.right_shift(code, _CODE_SHIFT, out=code)
        if negative:
            np.add(code, linear, out=code)
            np.right_shift(bits, 31, out=linear)  # all ones where negative
            np.bitwise_and(linear, np.int32(negative), out=linear)
        np.add(code, linear, out=found[start : start + _BLOCK])
    return found
