"""Lookup tables for weights: k-means on a line.

On a line, clusters are intervals of the sorted numbers, so that Lloyd's two steps (bounds halfway
between centroids, centroids the means of what lies between bounds) are a search and a difference of
running sums each. It starts from clusters made by splitting, again and again, the one with the
largest squared error at its mean: outliers get tables' entries of their own, and nothing is random.
Numbers may count differently: a weight's error shows by the square of what it is multiplied with.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ROUNDS = 100
"""Most of Lloyd's; it ends earlier where the bounds stay."""


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
    order = np.argsort(values, axis=None)
    ordered: Array = values.reshape(-1)[order]
    different: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    if different.size <= entries:
        return different
    wide = ordered.astype(np.float64)
    each = np.ones(wide.size) if counts is None else counts.reshape(-1)[order].astype(np.float64)
    line = _Line(*(np.append(0.0, np.cumsum(part)) for part in (each, each * wide, each * wide**2)))
    cuts = _split(wide, line, entries)
    for _ in range(ROUNDS):
        edges = np.concatenate([[0], cuts, [wide.size]])
        edges = edges[np.append(True, np.diff(edges) > 0)]
        centroids = np.diff(line.sums[edges]) / np.diff(line.counts[edges])
        before, cuts = cuts, np.searchsorted(wide, _between(centroids))
        if np.array_equal(before, cuts):
            break
    return np.unique(centroids.astype(np.float32))


def nearest(values: Array, table: Array) -> Array:
    """Each value's place in the table, as uint8."""
    return np.searchsorted(_between(table.astype(np.float64)), values).astype(np.uint8)


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
        middle = low + int(np.searchsorted(ordered[low:high], line.mean(low, high)))
        middle = min(max(middle, low + 1), high - 1)
        heapq.heappush(heap, cluster(low, middle))
        heapq.heappush(heap, cluster(middle, high))
    return np.asarray(sorted(low for _, low, _ in heap)[1:], np.int64)
