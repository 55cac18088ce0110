"""Where to clip: percentile, entropy and least squared error, from a tensor's histogram.

Each takes what :mod:`.histogram` counted and the exact extremes, and gives
the real numbers ``(low, high)`` that the quantizer's first and last step should stand for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from converter.precision.calibrate.histogram import FLOOR, Bins, Histogram

Array = np.ndarray[Any, Any]
Limits = tuple[float, float]

PERCENTILE = 99.999
"""Percent of the values that stay inside the range; half of the rest is cut off at each end."""

NARROWEST = 2.0 ** (FLOOR + 8)
"""The least width of a range, 9.1e-13: 256 steps of what the histogram takes for zero."""

_CHUNK = 256  # candidates of the entropy method at a time


def covering(low: float, high: float, symmetric: bool) -> Limits:
    """The limits widened so that zero is among them and the scale is a usable number.

    A tensor that was zero on every sample gets the range 0 to 1 (symmetric: -1 to 1): nothing
    is known of it, and a tiny scale would clip whatever comes.

    Args:
        low: The smallest value that should be covered.
        high: The largest one.
        symmetric: Whether the limits have one magnitude.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high == 0.0:
        high = 1.0
    if symmetric:
        high = max(-low, high, NARROWEST)
        return -high, high
    if high - low < NARROWEST:
        return (low, low + NARROWEST) if high >= -low else (high - NARROWEST, high)
    return low, high


def by_percentile(
    histogram: Histogram, extremes: Limits, *, symmetric: bool, percent: float = PERCENTILE
) -> Limits:
    """The narrowest range, to a bin, that cuts off no more than ``100 - percent`` percent.

    Where the range is symmetric, the percentile is that of the magnitudes.

    Args:
        histogram: What was counted of the tensor.
        extremes: Its exact smallest and largest value, which the range doesn't exceed.
        symmetric: Whether the limits have one magnitude.
        percent: Percentage of the values that the range keeps, at least.
    """
    cut = 1 - percent / 100
    if symmetric:
        reach = _kept_below(histogram.bins(folded=True), cut)
        reach = min(reach, max(-extremes[0], extremes[1]))
        return -reach, reach
    bins = histogram.bins()
    mirrored = Bins(-bins.high[::-1], -bins.low[::-1], bins.count[::-1])
    low = max(-_kept_below(mirrored, cut / 2), extremes[0])
    return low, min(_kept_below(bins, cut / 2), extremes[1])


def _kept_below(bins: Bins, cut: float) -> float:
    """The upper edge of the first bin above which lies at most the share ``cut``."""
    above = bins.total - np.cumsum(bins.count)
    # A share that is a whole number of values mustn't lose one to the rounding of 1 - p.
    allowed = math.floor(cut * bins.total * (1 + 1e-9))
    return float(bins.high[int(np.argmax(above <= allowed))])


def by_entropy(histogram: Histogram, extremes: Limits, *, symmetric: bool, bits: int) -> Limits:
    """The range whose quantization loses the least information.

    After S. Migacz, "8-bit Inference with TensorRT" (GTC 2017, session 7310): of the histogram
    of magnitudes (2048 bins there, 2048 to 4096 here; zeros left out), the first ``i`` bins,
    with everything beyond added to the last, are the distribution P. The same bins without
    what lies beyond, merged into 128 levels and spread evenly over those that aren't empty, are
    Q. The threshold is the ``i`` with the smallest Kullback-Leibler divergence of P from Q.

    There, 128 levels cover the magnitudes of a symmetric int8. Where the range isn't symmetric,
    the larger side has as many levels as fall to it: all 256 where there is no other side.

    Args:
        histogram: What was counted of the tensor.
        extremes: Its exact smallest and largest value, which the range doesn't exceed.
        symmetric: Whether the limits have one magnitude.
        bits: Of the integers.
    """
    low, high = min(extremes[0], 0.0), max(extremes[1], 0.0)
    reach = max(-low, high)
    span = 2 * reach if symmetric else high - low
    levels = round(2**bits * reach / span) if span else 0
    counts, width = histogram.linear_magnitudes
    used = int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 0
    if levels and used > levels:
        reach = min(_least_divergence(counts[:used], levels) * width, reach)
    return (-reach, reach) if symmetric else (max(low, -reach), min(high, reach))


def _least_divergence(counts: Array, levels: int) -> int:
    """How many bins to keep. Every second number is tried, from the largest down."""
    candidates = np.arange(counts.size, levels - 1, -2)
    chunks = [candidates[i : i + _CHUNK] for i in range(0, candidates.size, _CHUNK)]
    found = np.concatenate([divergences(counts, chunk, levels) for chunk in chunks])
    return int(candidates[int(np.argmin(found))])


def divergences(counts: Array, candidates: Array, levels: int) -> Array:
    """The divergence of P from Q for each number of bins kept; Inf where Q lacks what P has.

    As Q is the same in all bins of a level, running sums over the bins are enough:
    ``sum p log p - sum over levels of P(level) log q(level)``.

    Args:
        counts: int64 [bins].
        candidates: Numbers of bins kept, int64 [candidates].
        levels: Levels that they are merged into.
    """
    total = counts.sum()
    below = np.concatenate([[0], np.cumsum(counts)])
    filled = np.concatenate([[0], np.cumsum(counts > 0)])
    own = np.concatenate([[0.0], np.cumsum(_n_log_n(counts))])
    edges = -(-np.arange(levels + 1) * candidates[:, None] // levels)
    mass = np.diff(below[edges], axis=1)
    bins = np.diff(filled[edges], axis=1)
    kept = below[candidates]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_q = np.log(mass / (bins * kept[:, None]))
    cross = np.where(mass > 0, mass * log_q, 0.0).sum(axis=1)
    last = counts[candidates - 1]
    beyond = total - kept
    cross = cross + np.where(beyond > 0, beyond * np.where(last > 0, log_q[:, -1], -np.inf), 0.0)
    entropy = own[candidates] - _n_log_n(last) + _n_log_n(last + beyond) - total * np.log(total)
    return np.asarray((entropy - cross) / total)


def _n_log_n(counts: Array) -> Array:
    return np.asarray(counts * np.log(np.maximum(counts, 1)))


def by_squared_error(
    histogram: Histogram, extremes: Limits, *, symmetric: bool, bits: int
) -> Limits:
    """The range whose quantization has the least mean squared error.

    Both ends are scaled down together, then each alone, until nothing gets better by it.

    Args:
        histogram: What was counted of the tensor.
        extremes: Its exact smallest and largest value, which the range doesn't exceed.
        symmetric: Whether the limits have one magnitude.
        bits: Of the integers.
    """
    error = SquaredError(histogram.bins(folded=symmetric), bits, symmetric)
    low, high = min(extremes[0], 0.0), max(extremes[1], 0.0)
    if symmetric:
        reach = max(-low, high)
        reach *= _best_ratio(lambda ratio: error(-reach * ratio, reach * ratio))
        return -reach, reach
    both = _best_ratio(lambda ratio: error(low * ratio, high * ratio))
    chosen = (low * both, high * both)
    for _ in range(4 if low < 0 < high else 0):
        before = chosen
        chosen = (chosen[0], _best_high(error, chosen[0], high))
        chosen = (_best_low(error, low, chosen[1]), chosen[1])
        if chosen == before:
            break
    return chosen


def _best_high(error: SquaredError, low: float, high: float) -> float:
    return high * _best_ratio(lambda ratio: error(low, high * ratio))


def _best_low(error: SquaredError, low: float, high: float) -> float:
    return low * _best_ratio(lambda ratio: error(low * ratio, high))


def _best_ratio(error: Callable[[float], float]) -> float:
    """The ratio from 1 down to 2^-20 with the least error, to 2^(1/128) = half a percent."""
    best = _least(error, [2.0 ** (-k / 2) for k in range(41)])
    for step in (16, 128):
        around = [best * 2.0 ** (k / step) for k in range(-8, 9)]
        best = _least(error, [ratio for ratio in around if ratio <= 1])
    return best


def _least(error: Callable[[float], float], ratios: list[float]) -> float:
    return min(ratios, key=error)


class SquaredError:
    """The mean squared error of quantizing values with given limits.

    Values are taken to lie evenly within their bin. With running sums of 1, x and x^2, the
    error of all values that round to one step ``q`` is ``sum x^2 - 2 q sum x + q^2 n``.

    Args:
        bins: The values; magnitudes where the range is symmetric.
        bits: Of the integers: ``2^bits`` steps, one less where symmetric.
        symmetric: Whether the limits are.
    """

    def __init__(self, bins: Bins, bits: int, symmetric: bool) -> None:
        self._low, self._high = bins.low, bins.high
        self._total = bins.total
        width = bins.high - bins.low
        self._density = bins.count / np.where(width > 0, width, np.inf)
        middle = (bins.high + bins.low) / 2
        square = (bins.high**2 + bins.high * bins.low + bins.low**2) / 3
        sums = [bins.count, bins.count * middle, bins.count * square]
        self._sums = [np.concatenate([[0.0], np.cumsum(item)]) for item in sums]
        self._steps = 2**bits - (2 if symmetric else 1)
        self._folded = symmetric

    def __call__(self, low: float, high: float) -> float:
        """The error with the range from ``low`` to ``high``."""
        scale = (high - low) / self._steps
        if scale == 0:
            return float(self._sums[2][-1] / self._total)
        first = 0 if self._folded else round(low / scale)
        last = self._steps // 2 if self._folded else first + self._steps
        points = np.arange(first, last + 1) * scale
        between = (points[1:] + points[:-1]) / 2
        sums = self._below(between)
        count, first_moment, second_moment = (np.diff(item) for item in sums)
        errors = second_moment - 2 * points * first_moment + points**2 * count
        return float(errors.sum() / self._total)

    def _below(self, at: Array) -> list[Array]:
        """Sums of 1, x and x^2 over the values below each point, zero before, all after them."""
        index = np.searchsorted(self._high, at, side="right")
        inside = np.minimum(index, self._low.size - 1)
        low = self._low[inside]
        upper = np.clip(at, low, self._high[inside])
        density = np.where(index < self._low.size, self._density[inside], 0.0)
        found = []
        for power, sums in enumerate(self._sums, 1):
            part = density * (upper**power - low**power) / power
            found.append(np.concatenate([[0.0], sums[index] + part, sums[-1:]]))
        return found
