"""Lookup tables for weights: k-means on a line.

On a line, clusters are intervals of the sorted numbers, so that Lloyd's two steps (bounds halfway
between centroids, centroids the means of what lies between bounds) are a search and a difference of
running sums each. It starts from clusters made by splitting, again and again, the one with the
largest squared error at its mean: outliers get tables' entries of their own, and nothing is random.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ROUNDS = 100
"""Most of Lloyd's; it ends earlier where the bounds stay."""


def palette(values: Array, entries: int) -> Array:
    """The table.

    Args:
        values: float32, any shape, finite.
        entries: How many numbers it may hold.

    Returns:
        float32, ascending; at most ``entries``, fewer where there are fewer different values.
    """
    ordered: Array = np.sort(values, axis=None)
    different: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    if different.size <= entries:
        return different
    wide = ordered.astype(np.float64)
    sums = np.append(0.0, np.cumsum(wide))
    cuts = _split(wide, sums, entries)
    for _ in range(ROUNDS):
        edges = np.concatenate([[0], cuts, [wide.size]])
        edges = edges[np.append(True, np.diff(edges) > 0)]
        centroids = np.diff(sums[edges]) / np.diff(edges)
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


def _split(ordered: Array, sums: Array, clusters: int) -> Array:
    """Where clusters end, the last's end left out."""
    squares = np.append(0.0, np.cumsum(np.square(ordered)))

    def cluster(low: int, high: int) -> tuple[float, int, int]:
        error = squares[high] - squares[low] - (sums[high] - sums[low]) ** 2 / (high - low)
        return (-error, low, high)

    heap = [cluster(0, ordered.size)]
    while len(heap) < clusters and heap[0][0] < 0:
        _, low, high = heapq.heappop(heap)
        mean = (sums[high] - sums[low]) / (high - low)
        middle = low + int(np.searchsorted(ordered[low:high], mean))
        middle = min(max(middle, low + 1), high - 1)
        heapq.heappush(heap, cluster(low, middle))
        heapq.heappush(heap, cluster(middle, high))
    return np.asarray(sorted(low for _, low, _ in heap)[1:], np.int64)
