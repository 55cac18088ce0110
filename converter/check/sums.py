"""Sums in float64 of values of any size: scaled by powers of two, they can't overflow or vanish."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LARGEST = float(np.finfo(np.float64).max)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether values of ``dtype`` are compared by error: floats (bfloat16 and float8 too)."""
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


def type_name(dtype: np.dtype[Any]) -> str:
    """What users call a type: NumPy's name, and ``string`` for text however NumPy holds it."""
    return "string" if dtype.kind in "OSTU" else dtype.name


def as_float(array: Array) -> Array:
    """The values in float64; of a complex number, its two parts."""
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array.astype(np.complex128))[..., None].view(np.float64)
    return array.astype(np.float64)


def are_best(values: Array, best: Array, index: Array) -> bool:
    """Whether indices and values are those of the best, in order, along the last axis.

    Args:
        values: All values, (..., n).
        best: What should be the k largest, (..., k), in descending order.
        index: Where they should be in ``values``: integers, (..., k).
    """
    taken = np.take_along_axis(values, index.astype(np.int64), axis=-1)
    right = -np.sort(-as_float(values), axis=-1)[..., : index.shape[-1]]
    return all(np.array_equal(as_float(each), right, equal_nan=True) for each in (taken, best))


class _Sum:
    """A sum kept as ``value * 2**exponent``."""

    def __init__(self) -> None:
        self.value = 0.0
        self.exponent: int = 0

    def add(self, value: float, exponent: int) -> None:
        if not value:
            return
        if not self.value or exponent > self.exponent:
            self.value = math.ldexp(self.value, self.exponent - exponent) + value
            self.exponent = exponent
        else:
            self.value += math.ldexp(value, exponent - self.exponent)


class Sums:
    """Squares and products of two vectors, and the squares of their difference."""

    def __init__(self) -> None:
        self.rr, self.cc, self.rc, self.noise = _Sum(), _Sum(), _Sum(), _Sum()

    def add(self, r: Array, c: Array) -> None:
        """Adds finite float64 vectors of one size: the reference's, the candidate's, which may be
        the same array."""
        scaled_r, er = _scaled(r)
        if r is c:
            square = float(np.sum(scaled_r * scaled_r))
            for one in (self.rr, self.cc, self.rc):
                one.add(square, 2 * er)
            return
        scaled_c, ec = _scaled(c)
        noise, en = _scaled(difference(r, c))
        self.rr.add(float(np.sum(scaled_r * scaled_r)), 2 * er)
        self.cc.add(float(np.sum(scaled_c * scaled_c)), 2 * ec)
        self.rc.add(float(np.sum(scaled_r * scaled_c)), er + ec)
        self.noise.add(float(np.sum(noise * noise)), 2 * en)

    def join(self, other: Sums) -> None:
        """Adds another's."""
        self.rr.add(other.rr.value, other.rr.exponent)
        self.cc.add(other.cc.value, other.cc.exponent)
        self.rc.add(other.rc.value, other.rc.exponent)
        self.noise.add(other.noise.value, other.noise.exponent)

    def cosine(self) -> float:
        """In [-1, 1]; 1 for two zero vectors, 0 where only one is zero."""
        if not self.rr.value or not self.cc.value:
            return 1.0 if self.rr.value == self.cc.value else 0.0
        exponent = self.rc.exponent - (self.rr.exponent + self.cc.exponent) // 2
        ratio = self.rc.value / math.sqrt(self.rr.value * self.cc.value)
        return max(-1.0, min(1.0, math.ldexp(ratio, exponent)))

    def norm_ratio(self) -> float | None:
        """The candidate's norm over the reference's; None where that is zero."""
        if not self.rr.value:
            return None
        exponent = (self.cc.exponent - self.rr.exponent) // 2
        if exponent > 1000:
            return LARGEST
        return math.ldexp(math.sqrt(self.cc.value / self.rr.value), exponent)

    def sqnr_db(self) -> float | None:
        """Signal over noise in dB; None where either is zero."""
        if not self.rr.value or not self.noise.value:
            return None
        exponent = self.rr.exponent - self.noise.exponent
        return 10 * (math.log10(self.rr.value / self.noise.value) + exponent * math.log10(2))


def _scaled(array: Array) -> tuple[Array, int]:
    """``array * 2**-e`` with its largest value in [0.5, 1), and e; all zero stays so."""
    largest = float(np.max(np.abs(array), initial=0.0))
    exponent = math.frexp(largest)[1]
    return np.ldexp(array, -exponent), exponent


def difference(r: Array, c: Array) -> Array:
    """``c - r``, at most the largest float64."""
    with np.errstate(over="ignore"):
        found: Array = np.clip(c - r, -LARGEST, LARGEST)
    return found


class Mean:
    """A running mean that can't overflow."""

    def __init__(self) -> None:
        self.value, self.count = 0.0, 0

    def add(self, values: Array) -> None:
        """Adds values that are finite or infinite, not NaN."""
        if values.size:
            self.count += values.size
            mean = float(np.sum(values / values.size))
            self.value += (mean - self.value) * (values.size / self.count)

    def add_zeros(self, count: int) -> None:
        """Adds as many zeros."""
        self.count += count
        self.value -= self.value * (count / self.count)

    def result(self) -> float | None:
        """The mean, at most the largest float64; None of nothing."""
        return min(self.value, LARGEST) if self.count else None


def cosine(reference: Array, candidate: Array) -> float:
    """The cosine of two arrays of one size, over all their values, as ``check.metrics`` has it."""
    sums = Sums()
    sums.add(as_float(np.asarray(reference)).ravel(), as_float(np.asarray(candidate)).ravel())
    return sums.cosine()
