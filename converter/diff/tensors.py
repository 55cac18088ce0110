"""How far two tensors are apart, over samples.

The error of a float tensor is, for each sample, the largest ``|a - b|`` over the sample's largest
``|a|`` (at least a thousandth of what it is over all samples, so that silence doesn't magnify
rounding); the worst sample counts. Integers of 8 bits are compared like this with 255 as the
largest; other integers, bools and strings have to be equal. Masks' sentinels (the most negative
float, or whatever a shorter type makes of it) count as equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.check.sums import is_float
from converter.text.words import number

Array = np.ndarray[Any, Any]

Place = tuple[str, tuple[int, ...], str, str]
"""A sample, an index, and what stands there in A and in B."""

FLOOR = 1e-3
SENTINEL = 1e30
"""Magnitudes from here on are no values of a computation, but a mask's."""

SHORT_SENTINEL = 1e4
"""What a sentinel may have become in a shorter type."""


@dataclass(frozen=True)
class TensorError:
    """How far one tensor of A is from its counterpart in B.

    Attributes:
        name, other: Its name in A and in B.
        error: See the module's docstring; None where it can't be told (``odd`` says why).
        sqnr_db: 10 log10 of the signal's power over the error's, all samples; None where there is
            no error, or no signal.
        odd: What is wrong apart from size: ``NaN in 3 values``, ``its shape is 1x4, not 1x8``.
        sample: The sample with the largest error.
        index: Where in the tensor it is.
        value_a, value_b: What stands there.
    """

    name: str
    other: str
    error: float | None
    sqnr_db: float | None = None
    odd: str = ""
    sample: str = ""
    index: tuple[int, ...] = ()
    value_a: str = ""
    value_b: str = ""

    def parts(self, tolerance: float) -> bool:
        """Whether A and B part here."""
        return bool(self.odd) or (self.error is not None and self.error > tolerance)

    @property
    def words(self) -> str:
        """``off by 0.031 of its largest value``, or what is odd."""
        return self.odd or f"off by {number(self.error or 0, 2)} of its largest value"


class PairComparer:
    """One tensor over the samples."""

    def __init__(self, name: str, other: str) -> None:
        self._names = name, other
        self._each: list[tuple[float, float]] = []
        self._places: list[Place] = []
        self._signal = self._noise = 0.0
        self._odd = ""
        self._odd_place: Place = ("", (), "", "")

    def add(self, a: Array, b: Array, sample: str) -> None:
        """Compares one sample's tensors.

        Args:
            a: The tensor in model A.
            b: The tensor in model B. With another shape or kind, it counts as different.
            sample: The sample's name.
        """
        floats = is_float(a.dtype), is_float(b.dtype)
        if a.shape != b.shape:
            self._tell(f"its shape is {_dims(b)} in B and {_dims(a)} in A", sample)
        elif floats[0] != floats[1]:
            self._tell(f"its type is {b.dtype} in B and {a.dtype} in A", sample)
        elif floats[0]:
            self._add_floats(a, b, sample)
        elif a.dtype.itemsize == 1 and a.dtype.kind in "iu" and b.dtype == a.dtype:
            difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
            self._add(difference, 255.0, a, b, sample)
        else:
            wrong = np.asarray(a != b)
            if wrong.any():
                count = f"{int(wrong.sum())} of {wrong.size} values differ"
                self._tell(count, sample, int(np.argmax(wrong)), a, b)
            self._each.append((0.0, 1.0))
            self._places.append((sample, (), "", ""))

    def _add_floats(self, a: Array, b: Array, sample: str) -> None:
        old, new = a.astype(np.float64), b.astype(np.float64)
        alike = (np.abs(old) >= SENTINEL) & (np.abs(new) >= SHORT_SENTINEL)
        alike &= np.sign(old) == np.sign(new)
        if alike.any():
            old, new = np.where(alike, 0.0, old), np.where(alike, 0.0, new)
        for word, test in (("NaN", np.isnan), ("infinite", np.isinf)):
            wrong = test(old) != test(new)
            if wrong.any():
                counts = (
                    f"{word} in {int(test(new).sum())} values of B, {int(test(old).sum())} of A"
                )
                self._tell(counts, sample, int(np.argmax(wrong)), a, b)
        finite = np.isfinite(old) & np.isfinite(new)
        old, new = np.where(finite, old, 0.0), np.where(finite, new, 0.0)
        self._signal += float(np.sum(old**2))
        self._noise += float(np.sum((new - old) ** 2))
        self._add(np.abs(new - old), float(np.max(np.abs(old), initial=0.0)), a, b, sample)

    def _add(self, difference: Array, largest: float, a: Array, b: Array, sample: str) -> None:
        if not difference.size:
            return
        where = int(np.argmax(difference))
        self._each.append((float(difference.flat[where]), largest))
        self._places.append(_place(sample, where, a, b))

    def _tell(
        self,
        odd: str,
        sample: str,
        where: int | None = None,
        a: Array | None = None,
        b: Array | None = None,
    ) -> None:
        if self._odd:
            return
        self._odd = odd
        self._odd_place = (sample, (), "", "")
        if where is not None and a is not None and b is not None:
            self._odd_place = _place(sample, where, a, b)

    def result(self) -> TensorError:
        """What there is to say of all samples."""
        if self._odd:
            return self._at(self._odd_place, None, self._odd)
        floor = FLOOR * max((largest for _, largest in self._each), default=0.0)
        errors = [_ratio(error, max(largest, floor)) for error, largest in self._each]
        if not errors:
            return TensorError(*self._names, 0.0)
        worst = max(range(len(errors)), key=errors.__getitem__)
        return self._at(self._places[worst], errors[worst])

    def _at(self, place: Place, error: float | None, odd: str = "") -> TensorError:
        sample, index, value_a, value_b = place
        return TensorError(*self._names, error, self._sqnr(), odd, sample, index, value_a, value_b)

    def _sqnr(self) -> float | None:
        if not self._signal or not self._noise:
            return None
        return 10 * (math.log10(self._signal) - math.log10(self._noise))


def _ratio(error: float, largest: float) -> float:
    if not error:
        return 0.0
    return min(error / largest, 1e30) if largest else 1e30


def _place(sample: str, where: int, a: Array, b: Array) -> Place:
    index = tuple(int(i) for i in np.unravel_index(where, a.shape))
    return sample, index, str(a[index])[:60], str(b[index])[:60]


def _dims(array: Array) -> str:
    return "x".join(str(size) for size in array.shape) or "scalar"
