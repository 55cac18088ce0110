"""What the tensors of a model hold: as measured on samples, or as constants."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import onnx_ir

from converter.ir.edit import constant


class Measured(Protocol):
    """What is needed of :class:`converter.precision.calibrate.ranges.Ranges`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors that were measured."""
        ...

    def extremes(self, name: str) -> tuple[float, float]:
        """Smallest and largest finite value of one of them."""
        ...


class Measurements:
    """Extremes of values, measured or constant.

    Args:
        ranges: What was measured; None where nothing was.
    """

    def __init__(self, ranges: Measured | None) -> None:
        self._ranges = ranges
        self._known = frozenset(ranges.names) if ranges is not None else frozenset()

    def extremes(self, value: onnx_ir.Value | None) -> tuple[float, float] | None:
        """Smallest and largest finite value; None where they aren't known."""
        if value is None:
            return None
        if self._ranges is not None and value.name in self._known:
            low, high = self._ranges.extremes(value.name or "")
            return (low, high) if math.isfinite(low) and math.isfinite(high) else None
        array = constant(value)
        if array is None or array.dtype.kind not in "fiu" or not array.size:
            return None
        finite = array[np.isfinite(array)]
        return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)

    def largest(self, value: onnx_ir.Value | None) -> float | None:
        """The largest finite magnitude; None where it isn't known."""
        found = self.extremes(value)
        return None if found is None else max(abs(found[0]), abs(found[1]))
