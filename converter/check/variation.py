"""Errors beside how much an output varies, in whole and by channel.

A cosine is only as fine as an output's largest values: class scores drown beside boxes in pixels,
answers beside an offset that they share. Here an error counts relative to the variance of what it
is an error of. With r the reference's values, c the candidate's, in S rows (samples):

* whole: ``mean((c - r)^2) / mean((r - mean of r over the rows)^2)``, the latter times S / (S - 1).
  Where sizes differ from row to row, or there is one row, the mean is over all values.
* channel i: ``mean((c_i - r_i)^2) / max(var(r_i), share * median of all var(r_i))``, the variance
  about the channel's own mean, over rows and places. Of few values a variance is little known, and
  the smallest of many is smaller by chance: the share is larger there (:data:`PRIOR`).

What rounding comes to is taken off the error first: a share of the largest magnitude, squared. How
large the shares are hangs on the precision (:class:`Grain`).

Channels are the indices along the first axis after the rows, and along the last: images have them
first or last, tokens last. Axes of size 1 and axes whose size differs from row to row have none,
nor has what has one channel: [rows, places, 1] or [rows, 1, height, width]. Nor have lists of found
things along their rows: the fifth box of one picture has nothing in common with that of another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from converter.check.sums import LARGEST, Array, difference


@dataclass(frozen=True)
class Grain:
    """How finely a precision is looked at.

    Attributes:
        rounding: Share of the largest magnitude that rounding may take. Of a channel its own
            counts: where one scale serves boxes and scores, a step of the boxes' is no excuse for
            the scores'.
        floor: Share of the median channel's variance that a channel which varies less is held to,
            at least.
    """

    rounding: float
    floor: float

    def share(self, values: int) -> float:
        """The floor of a channel of so many values."""
        return max(self.floor, PRIOR / (PRIOR + values - 1))


GRAINS = {
    "fp32": Grain(2.0**-20, 0.1),
    "fp16": Grain(2.0**-11, 0.1),
    "bf16": Grain(2.0**-8, 0.1),
    "int8": Grain(2.0**-6, 0.5),
}
"""By precision; all others have int8's."""

PRIOR = 7
"""Degrees of freedom that the median channel's variance counts for beside a channel's own, as prior
variances do in moderated t-tests (Smyth 2004, Statistical Applications in Genetics 3:3)."""

HUGE = 1e140
"""Times the first row's largest magnitude: whatever is larger counts as that."""


@dataclass(frozen=True)
class Varied:
    """A mean squared error beside the variance of what it is an error of.

    Attributes:
        error: ``mean((c - r)^2)``, in ``scale`` squared.
        variance: Of the reference's values, likewise.
        median: The variance of the median channel, likewise; 0 of the whole.
        largest: The largest square of these, likewise.
        scale: What values were divided by, a power of two.
        count: How many values these were.
        axis: The channel's axis, counted without rows and axes of size 1; None for the whole.
        index: The channel.
    """

    error: float
    variance: float
    median: float
    largest: float
    scale: float
    count: int
    axis: int | None = None
    index: int | None = None

    def ratio(self, grain: Grain, step: float = 0.0) -> float:
        """What the error, less rounding, is of the variance.

        Args:
            grain: How finely it is looked at.
            step: What may be lost of a value whatever its size.
        """
        error = self.error - max(grain.rounding**2 * self.largest, (step / self.scale) ** 2)
        beside = max(self.variance, grain.share(self.count) * self.median)
        if error <= 0 or beside <= GRAINS["fp32"].rounding ** 2 * self.largest:
            return 0.0  # what varies by rounding alone tells nothing
        return min(error / beside, LARGEST)


@dataclass(frozen=True)
class Variations:
    """How an output's errors stand beside its variation.

    Attributes:
        rows: Rows that were compared.
        whole: All values together.
        channels: The worst channels, for each of :data:`GRAINS`; none without channels.
    """

    rows: int
    whole: Varied
    channels: tuple[Varied, ...] = ()

    def worst(self, grain: Grain, step: float = 0.0) -> Varied | None:
        """The channel with the largest ratio."""
        return max(self.channels, key=lambda item: item.ratio(grain, step), default=None)


class Variation:
    """One output's rows, as they come; memory is that of a row, not of all.

    Args:
        listed: The axis along which found things stand, where the output is a list of them.
    """

    def __init__(self, listed: int | None = None) -> None:
        self._listed = listed
        self._rows = 0
        self._scale = 1.0
        self._shape: tuple[int, ...] = ()
        self._mean = np.empty(0)
        self._about_rows = 0.0
        self._alike = True
        self._all = _Channels(1)
        self._axes: dict[int, _Channels] = {}

    def add(self, r: Array, c: Array) -> None:
        """Adds a row: float64 of one shape, finite values alone; both may be the same array."""
        if not r.size:
            return
        shape = tuple(size for size in r.shape if size != 1)
        if not self._rows:
            self._start(r, shape)
        apart = np.zeros_like(r) if r is c else self._scaled(difference(r, c))
        error = np.square(apart).reshape(shape)
        r = self._scaled(r).reshape(shape)
        self._rows += 1
        self._alike = self._alike and shape == self._shape
        if self._alike:
            before = r - self._mean
            self._mean += before / self._rows
            self._about_rows += float(np.sum(before * (r - self._mean)))
        self._all.add(r.reshape(1, -1), error.reshape(1, -1))
        for axis in list(self._axes):
            if len(shape) != len(self._shape) or shape[axis] != self._shape[axis]:
                del self._axes[axis]
                continue
            columns = (np.moveaxis(part, axis, 0).reshape(shape[axis], -1) for part in (r, error))
            self._axes[axis].add(*columns)

    def _scaled(self, values: Array) -> Array:
        """In the scale, and no larger than can be squared and summed."""
        with np.errstate(over="ignore"):
            scaled: Array = np.clip(values / self._scale, -HUGE, HUGE)
        return scaled

    def _start(self, r: Array, shape: tuple[int, ...]) -> None:
        """The first row says the shape, and the scale of all sums, so that none overflows."""
        exponent = math.frexp(float(np.max(np.abs(r), initial=0.0)))[1]
        self._scale = math.ldexp(1.0, max(min(exponent, 1023), -1000))
        self._shape, self._mean = shape, np.zeros(shape)
        one_last = r.ndim >= 3 and r.shape[-1] == 1
        one_first = r.ndim >= 4 and r.shape[1] == 1 < r.shape[2]
        if shape and not one_last and not one_first:
            found = {0, len(shape) - 1}
            if self._listed is not None and self._listed < r.ndim and r.shape[self._listed] != 1:
                found.discard(sum(size != 1 for size in r.shape[: self._listed]))
            self._axes = {axis: _Channels(shape[axis]) for axis in found}

    def result(self) -> Variations | None:
        """What was found; None of no values."""
        if not self._all.count:
            return None
        (whole,) = self._all.varied(self._scale)
        if self._alike and self._rows > 1:
            variance = self._about_rows / (max(self._mean.size, 1) * (self._rows - 1))
            whole = replace(whole, variance=variance)
        worst: dict[Varied, None] = {}
        for axis, found in self._axes.items():
            if found.count > 1:
                worst |= dict.fromkeys(found.worst(self._scale, axis))
        return Variations(self._rows, whole, tuple(worst))


class _Channels:
    """Mean, variance and error of each channel; parts are joined as Chan, Golub and LeVeque do."""

    def __init__(self, size: int) -> None:
        self.count = 0
        self._mean, self._about = np.zeros(size), np.zeros(size)
        self._error, self._largest = np.zeros(size), np.zeros(size)

    def add(self, r: Array, error: Array) -> None:
        """Adds [channels, values]."""
        added = r.shape[1]
        if not added:
            return
        mean = r.mean(axis=1)
        about = np.square(r - mean[:, None]).sum(axis=1)
        apart, total = mean - self._mean, self.count + added
        self._about += about + np.square(apart) * (self.count * added / total)
        self._mean += apart * (added / total)
        self._error += error.sum(axis=1)
        self._largest = np.maximum(self._largest, np.square(r).max(axis=1))
        self.count = total

    def varied(self, scale: float, axis: int | None = None) -> Iterator[Varied]:
        """What each channel comes to."""
        variance = self._about / max(self.count - 1, 1)
        median = 0.0 if axis is None else float(np.median(variance))
        parts = zip(self._error / self.count, variance, self._largest, strict=True)
        for index, (error, about, largest) in enumerate(parts):
            place = None if axis is None else index
            sums = float(error), float(about), median, float(largest)
            yield Varied(*sums, scale, self.count, axis, place)

    def worst(self, scale: float, axis: int) -> Iterator[Varied]:
        """The worst channel for each of the grains."""
        found = list(self.varied(scale, axis))
        for grain in GRAINS.values():
            yield max(found, key=lambda item: item.ratio(grain))
