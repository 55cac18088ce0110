"""Lookup tables for weights: k-means on a line.

On a line, clusters are intervals of the sorted numbers, so that Lloyd's two steps (bounds halfway
between centroids, centroids the means of what lies between bounds) are a search and a difference of
running sums each. It starts from clusters made by splitting, again and again, the one with the
largest squared error at its mean: outliers get tables' entries of their own, and nothing is random.
Numbers may count differently: a weight's error shows by the square of what it is multiplied with.
Of many numbers, those whose upper bits are the same stay in one cluster, so that nothing is sorted.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ROUNDS = 100
"""Most of Lloyd's; it ends earlier where the bounds stay."""

MANY = 1 << 19
"""Numbers above which they are put into bins to make a table."""

LOOKED_UP = 1 << 12
"""Numbers above which their places are found by bins, too."""

_BINS_EACH = 16
"""For each of a table's entries, the bins that there are at least; else numbers are sorted."""

_BITS = 20
"""Of a float32 that name its bin: sign, exponent and 11 of the mantissa, 1/2048 of the number."""

_PIECE = 1 << 22
"""Numbers that are put into bins at once."""


def palette(values: Array, entries: int, counts: Array | None = None) -> Array:
    """The table.

    Args:
        values: float32, any shape, finite.
        entries: How many numbers it may hold.
        counts: How much each value's squared error counts, above 0, shaped as ``values``; None for
            all alike.

    Returns:
        float32, ascending; at most ``entries``, fewer where there are fewer different values.
    """
    flat: Array = values.reshape(-1)
    found = _binned(flat, counts) if flat.size > MANY else None
    if found is None or found[0].size < _BINS_EACH * entries:
        order = None if counts is None else np.argsort(flat)
        ordered = np.sort(flat) if order is None else flat[order]
        different: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])]
        if different.size <= entries:
            return different
        found = _sorted(ordered, None if counts is None else counts.reshape(-1)[order])
    wide, line = found
    cuts = _split(wide, line, entries)
    for _ in range(ROUNDS):
        edges = np.concatenate(([0], cuts, [wide.size]))
        if not (filled := edges[1:] > edges[:-1]).all():
            edges = edges[np.append(True, filled)]
        totals, each = line.sums[edges], line.counts[edges]
        centroids = (totals[1:] - totals[:-1]) / (each[1:] - each[:-1])
        before, cuts = cuts, wide.searchsorted(_between(centroids))
        if before.size == cuts.size and (before == cuts).all():
            break
    return np.unique(centroids.astype(np.float32))


def nearest(values: Array, table: Array) -> Array:
    """Each value's place in the table, as uint8."""
    bounds = _between(table.astype(np.float64))
    lower = bounds.astype(np.float32)  # the largest float32 that isn't above each: no value between
    lower = np.where(lower > bounds, np.nextafter(lower, np.float32(-np.inf)), lower)
    if values.size <= LOOKED_UP:
        return np.searchsorted(lower, values).astype(np.uint8)
    ends = _bins(lower)
    steps = np.diff(ends, prepend=np.uint32(0), append=np.uint32(1 << _BITS))
    of_bins = np.repeat(np.arange(table.size, dtype=np.uint8), steps)
    split = np.zeros(1 << _BITS, bool)
    split[ends] = True  # a bound is inside of them
    flat = values.reshape(-1)
    found = np.empty(flat.size, np.uint8)
    for at in range(0, flat.size, _PIECE):
        piece = flat[at : at + _PIECE]
        bins = _bins(piece)
        places = of_bins[bins]
        (near,) = np.nonzero(split[bins])
        places[near] = np.searchsorted(lower, piece[near])
        found[at : at + _PIECE] = places
    return found.reshape(values.shape)


def _sorted(ordered: Array, counts: Array | None) -> tuple[Array, _Line]:
    """Ascending numbers, and their running sums."""
    wide = ordered.astype(np.float64)
    if counts is None:
        counted = np.arange(wide.size + 1, dtype=np.float64)
        return wide, _Line(counted, _running(wide), _running(np.square(wide)))
    each = counts.astype(np.float64)
    whole = each * wide
    return wide, _Line(_running(each), _running(whole), _running(whole * wide))


def _binned(values: Array, counts: Array | None) -> tuple[Array, _Line]:
    """The same of bins that aren't empty, as if all in one were their mean."""
    totals = np.zeros((2, 1 << _BITS))
    for at in range(0, values.size, _PIECE):
        piece = values[at : at + _PIECE]
        bins, each = _bins(piece), None
        if counts is not None:
            each = counts.reshape(-1)[at : at + _PIECE]
            piece = each * piece.astype(np.float64)
        totals += [np.bincount(bins, part, 1 << _BITS) for part in (each, piece)]
    each, whole = totals[:, totals[0] > 0]
    return whole / each, _Line(_running(each), _running(whole), _running(whole**2 / each))


def _bins(values: Array) -> Array:
    """The bin of each float32: ascending, as the numbers are."""
    bits = values.view(np.uint32)
    # Negative numbers are in descending order by their bits, and below the others.
    turned = (bits.view(np.int32) >> 31).view(np.uint32) | np.uint32(1 << 31)
    return (bits ^ turned) >> np.uint32(32 - _BITS)


def _running(parts: Array) -> Array:
    """Their running sums, from 0 on."""
    sums = np.empty(parts.size + 1)
    sums[0] = 0
    np.cumsum(parts, out=sums[1:])
    return sums


def _between(table: Array) -> Array:
    halfway: Array = (table[1:] + table[:-1]) / 2
    return halfway


@dataclass(frozen=True)
class _Line:
    """Running sums over sorted numbers: of how much they count, of them, and of their squares."""

    counts: Array
    sums: Array
    squares: Array

    def mean(self, low: int, high: int) -> float:
        return float((self.sums[high] - self.sums[low]) / (self.counts[high] - self.counts[low]))

    def error(self, low: int, high: int) -> float:
        """The squared error of the numbers in between at their mean."""
        squares = self.squares[high] - self.squares[low]
        return float(squares - self.mean(low, high) * (self.sums[high] - self.sums[low]))


def _split(ordered: Array, line: _Line, clusters: int) -> Array:
    """Where clusters end, the last's end left out."""

    def cluster(low: int, high: int) -> tuple[float, int, int]:
        return (-line.error(low, high), low, high)

    heap = [cluster(0, ordered.size)]
    while len(heap) < clusters and heap[0][0] < 0:
        _, low, high = heapq.heappop(heap)
        middle = low + int(ordered[low:high].searchsorted(line.mean(low, high)))
        middle = min(max(middle, low + 1), high - 1)
        heapq.heappush(heap, cluster(low, middle))
        heapq.heappush(heap, cluster(middle, high))
    return np.asarray(sorted(low for _, low, _ in heap)[1:], np.int64)
