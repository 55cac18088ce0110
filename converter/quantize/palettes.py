"""Lookup tables for weights: k-means on a line.

On a line, the best clusters are intervals of the sorted numbers, so that Lloyd's two steps (bounds
halfway between centroids, centroids the means of what lies between bounds) are a search and a
difference of running sums each: nothing is random, and equal numbers give equal tables. It starts
where the density's cube root says that the best table of many entries has them (Panter and Dite,
"Quantization distortion in pulse-count modulation with nonuniform spacing of levels", 1951).
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ROUNDS = 100
"""Most of Lloyd's; it ends earlier where the bounds stay."""

_CELLS = 1024
"""Of the histogram that it starts from."""


def palette(values: Array, entries: int) -> Array:
    """The table.

    Args:
        values: float32, any shape, finite.
        entries: How many numbers it may hold.

    Returns:
        float32, ascending; at most ``entries``, fewer where there are fewer different values.
    """
    ordered = np.sort(values, axis=None)
    different = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    if different.size <= entries:
        return different
    sums = np.append(0.0, np.cumsum(ordered, dtype=np.float64))
    centroids, bounds = _start(ordered, entries), None
    for _ in range(ROUNDS):
        cuts = np.searchsorted(ordered, _between(centroids))
        if bounds is not None and np.array_equal(cuts, bounds):
            break
        bounds = cuts
        edges = np.concatenate([[0], cuts, [ordered.size]])
        counts = np.diff(edges)
        means = np.diff(sums[edges]) / np.maximum(counts, 1)
        centroids = np.where(counts > 0, means, centroids)
    return np.unique(centroids.astype(np.float32))


def nearest(values: Array, table: Array) -> Array:
    """Each value's place in the table, as uint8."""
    return np.searchsorted(_between(table.astype(np.float64)), values).astype(np.uint8)


def _between(table: Array) -> Array:
    halfway: Array = (table[1:] + table[:-1]) / 2
    return halfway


def _start(ordered: Array, entries: int) -> Array:
    counts, edges = np.histogram(ordered, _CELLS)
    share = np.cumsum(np.cbrt(counts))
    wanted = (np.arange(entries) + 0.5) / entries * share[-1]
    return np.interp(wanted, np.append(0.0, share), edges)
