"""Scale and zero point of a quantized activation: ``real = (stored - zero_point) * scale``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from converter.precision.int8.scheme import Scheme

Array = np.ndarray[Any, Any]

_SMALLEST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Affine:
    """A tensor's quantization.

    Attributes:
        scale: Of one step; exactly a float32.
        zero_point: The integer that stands for 0.
        dtype: ``uint8`` or ``int8``.
    """

    scale: float
    zero_point: int
    dtype: str

    def store(self, values: Array) -> Array:
        """Real numbers as integers, to nearest, ties to even, saturated (ONNX QuantizeLinear)."""
        info = np.iinfo(self.dtype)
        stored = np.rint(np.asarray(values, np.float64) / self.scale) + self.zero_point
        saturated: Array = np.clip(stored, info.min, info.max).astype(self.dtype)
        return saturated


def affine(low: float, high: float, scheme: Scheme) -> Affine:
    """The quantization of a tensor whose values lie between two limits.

    0 is always in the range, so that it is exact: it is what padding adds. Where nothing but 0 is,
    the scale is 1.

    Args:
        low: The real number that the smallest integer should reach.
        high: The real number that the largest integer should reach.
        scheme: The integers' dtype, and whether zero points are fixed at the middle.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    info = np.iinfo(scheme.activations)
    if scheme.symmetric:
        middle = (info.min + info.max + 1) // 2
        return Affine(_step(max(-low, high), info.max - middle), middle, scheme.activations)
    scale = _step(high - low, info.max - info.min)
    zero_point = info.min + round(-low / scale)
    return Affine(scale, min(max(zero_point, info.min), info.max), scheme.activations)


def _step(width: float, steps: int) -> float:
    scale = float(np.float32(width / steps))
    return scale if scale >= _SMALLEST else 1.0
