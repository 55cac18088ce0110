"""What is measured of one tensor, a sample at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from converter.precision.calibrate.histogram import Histogram

Array = np.ndarray[Any, Any]

MOMENTUM = 0.9
"""What a moving average keeps of itself at each sample; it begins with the first one's value."""

_LARGEST = float(np.finfo(np.float32).max)


@dataclass
class Tally:
    """What was seen of one tensor.

    Attributes:
        low, high: Smallest and largest finite value; ``inf`` and ``-inf`` before there is one.
        moving: Moving averages of each sample's smallest and largest value, in the samples'
            order; None before there is one.
        count: How many finite values there were.
        nonfinite: How many were NaN or Inf.
        nonfinite_sample: The first sample with such values.
        histogram: Of the finite values, as float32; larger ones count as its largest.
    """

    low: float = float("inf")
    high: float = float("-inf")
    moving: tuple[float, float] | None = None
    count: int = 0
    nonfinite: int = 0
    nonfinite_sample: str = ""
    histogram: Histogram = field(default_factory=Histogram)

    def add(self, sample: str, array: Array) -> None:
        """Counts the values of one sample: floats of any width and shape."""
        values = np.ascontiguousarray(array)
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float32)
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        if not np.isfinite(high - low):  # or the difference alone overflows: nothing is lost
            values = self._finite(sample, values)
            if not values.size:
                return
            low, high = float(values.min()), float(values.max())
        self._add_extremes(low, high)
        self.count += values.size
        if values.dtype != np.float32:
            values = np.clip(values, -_LARGEST, _LARGEST).astype(np.float32)
        self.histogram.add(values, min(max(-low, high), _LARGEST), signed=low < 0)

    def _finite(self, sample: str, values: Array) -> Array:
        finite = values[np.isfinite(values)]
        if finite.size < values.size:
            self.nonfinite += values.size - finite.size
            self.nonfinite_sample = self.nonfinite_sample or sample
        return finite

    def _add_extremes(self, low: float, high: float) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.moving is None:
            self.moving = (low, high)
        else:
            before, seen = self.moving, (low, high)
            low, high = (
                MOMENTUM * a + (1 - MOMENTUM) * b for a, b in zip(before, seen, strict=True)
            )
            self.moving = (low, high)
