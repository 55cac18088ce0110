"""Whether a reference's values can tell a right candidate from a wrong one.

What is zero on every sample, or the same on every one, is also what a broken artifact gives that
ignores its inputs. Values are the same where they differ by no more than float32 rounding of the
largest (``value_ranges.ROUNDING``), or of the output's range where that is known: the comparison
forgives as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from converter.check.comparison import Blind
from converter.check.sums import Array, as_float
from converter.ir.value_ranges import ROUNDING


class Telling:
    """The reference's values of one output, over the samples.

    The first sample's are kept until another differs from them.

    Args:
        rounding: What rounding of the output's known range comes to; 0 where none is known.
    """

    def __init__(self, rounding: float) -> None:
        self._rounding = rounding
        self._samples = self._values = self._finite = 0
        self._first: Array | None = None
        self._zero = True
        self._varies = False

    def add(self, values: Array) -> None:
        """Adds a sample's: float64, NaN and Inf among them; or of any type that has ``==``."""
        self._samples += 1
        self._values += values.size
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            self._finite += int(np.count_nonzero(finite))
            values = np.where(finite, values, 0.0)
            largest = float(np.max(np.abs(values), initial=0.0))
            if largest <= self._rounding:
                values, largest = np.zeros_like(values), 0.0
            allowed = max(self._rounding, ROUNDING * largest)
        else:
            self._finite, allowed = self._values, 0.0
            largest = 1.0  # a zero is as good an integer as any
        self._zero = self._zero and not largest
        if self._first is None:
            self._first = values
        elif not self._varies and not _same(values, self._first, allowed):
            self._varies, self._first = True, np.empty(0)

    @property
    def blind(self) -> Blind:
        """Why they tell nothing; empty where they do."""
        if not self._samples:
            return ""
        if not self._values:
            return "empty"
        if not self._finite:
            return "not finite"
        if self._zero:
            return "zero"
        if self._varies:
            return ""
        return "constant" if self._samples > 1 else "one sample"


def untold(reference: Iterable[Mapping[str, Array]]) -> set[str]:
    """The outputs of a reference that tell nothing; it reads no more samples than that takes."""
    found: dict[str, Telling] = {}
    blind: set[str] = set()
    for outputs in reference:
        for name, values in outputs.items():
            floats = values.dtype.kind in "fV"
            found.setdefault(name, Telling(0.0)).add(as_float(values) if floats else values)
        blind = {name for name, telling in found.items() if telling.blind}
        if not blind:
            break
    return blind


def _same(values: Array, first: Array, allowed: float) -> bool:
    if values.shape != first.shape:
        return False
    if values.dtype.kind != "f":
        return bool(np.array_equal(values, first))
    return bool(np.max(np.abs(values / 2 - first / 2), initial=0.0) <= allowed / 2)
