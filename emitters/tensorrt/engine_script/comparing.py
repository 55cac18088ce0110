"""How close an engine's outputs are to the source framework's, in plain Python.

The gates are those of modelyard's own check, with the limits that the lock states: NaN or Inf
nowhere where the source has none; cosine, of the worst sample and of all together; the ratio of the
norms, which cosine doesn't see; for integers and booleans the share of equal values. A sample whose
largest error is within 2**-20 of the output's known range doesn't count against cosine and scale.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from operator import mul
from typing import Any

ROUNDING = 2.0**-20
"""Of an output's known range: what float32 arithmetic may leave there."""

_CODES = {
    "float32": "f", "float64": "d", "float16": "e", "bfloat16": "H", "int8": "b", "int16": "h",
    "int32": "i", "int64": "q", "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "bool": "?",
}  # fmt: skip

SIZES = {name: struct.calcsize("<" + code) for name, code in _CODES.items()}
"""Bytes of an element of each dtype."""


def decode(data: bytes, dtype: str) -> Sequence[Any]:
    """The values in little-endian bytes; bfloat16 as the floats that its bits stand for."""
    count = len(data) // SIZES[dtype]
    values = struct.unpack(f"<{count}{_CODES[dtype]}", data)
    if dtype != "bfloat16":
        return values
    return struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(bits << 16 for bits in values)))


class Tally:
    """One output, compared over samples.

    Args:
        name: Its name.
        dtype: Its dtype.
        value_range: Its smallest and largest possible value, where known.
    """

    def __init__(self, name: str, dtype: str, value_range: Sequence[float] | None = None) -> None:
        self.name = name
        self.dtype = dtype
        self.is_float = dtype in ("float32", "float64", "float16", "bfloat16")
        self.rounding = ROUNDING * max(map(abs, value_range)) if value_range else 0.0
        self.worst = 1.0
        self.max_error = 0.0
        self.samples = self.within_rounding = 0
        self.values = self.equal = self.introduced = 0
        self._dot = self._source = self._found = 0.0

    def add(self, expected: bytes, found: bytes) -> None:
        """Compares one sample's output, as little-endian bytes of one length."""
        left, right = decode(expected, self.dtype), decode(found, self.dtype)
        self.samples += 1
        self.values += len(left)
        if not self.is_float:
            self.equal += sum(a == b for a, b in zip(left, right))  # noqa: B905 - Python 3.9
            return
        left, right = self._finite(left, right)
        error = max((abs(a - b) for a, b in zip(left, right)), default=0.0)  # noqa: B905
        self.max_error = max(self.max_error, error)
        if self.rounding and error <= self.rounding:
            self.within_rounding += 1
            return
        sums = [math.fsum(map(mul, a, b)) for a, b in ((left, right), (left, left), (right, right))]
        self.worst = min(self.worst, _cosine(*sums))
        self._dot += sums[0]
        self._source += sums[1]
        self._found += sums[2]

    def _finite(self, left: Sequence[Any], right: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The pairs that are finite on both sides; what isn't where the source is, is counted."""
        pairs = []
        for a, b in zip(left, right):  # noqa: B905
            if math.isfinite(a) and math.isfinite(b):
                pairs.append((a, b))
            elif not math.isfinite(b) and not (a == b or (a != a and b != b)):
                self.introduced += 1
        return [a for a, _ in pairs], [b for _, b in pairs]

    @property
    def cosine(self) -> float:
        """The smaller of the worst sample's and of all together."""
        return min(self.worst, _cosine(self._dot, self._source, self._found))

    @property
    def scale(self) -> float:
        """By how much the ratio of the norms differs from 1; infinite where only one is zero."""
        if not self._source:
            return 0.0 if not self._found else math.inf
        return abs(math.sqrt(self._found / self._source) - 1)

    def failures(self, gates: dict[str, Any]) -> list[str]:
        """The gates that it misses, in words."""
        missed = []
        if self.introduced:
            missed.append(f"{self.introduced} NaN or Inf where the source has none")
        if self.is_float:
            if self.cosine < gates["cosine"]:
                missed.append(f"cosine {self.cosine:.9g}, at least {gates['cosine']}")
            if self.scale > gates["scale"]:
                missed.append(f"norm off by {self.scale:.6g}, at most {gates['scale']}")
            if gates["max_abs"] is not None and self.max_error > gates["max_abs"]:
                missed.append(f"error {self.max_error:.6g}, at most {gates['max_abs']}")
        elif self.equal < gates["cosine"] * self.values:
            missed.append(f"{self.equal} of {self.values} equal, at least {gates['cosine']:.2%}")
        return [f"{self.name}: {item}" for item in missed]

    def describe(self) -> str:
        """What was measured, for people."""
        if self.is_float:
            return (
                f"{self.name}: cosine {self.cosine:.6f}, norm off by {self.scale:.5f}, "
                f"largest error {self.max_error:.4g}"
            )
        return f"{self.name}: {self.equal} of {self.values} values equal"


def _cosine(dot: float, left: float, right: float) -> float:
    """Of two vectors by their products; 1 where both are zero, 0 where one is."""
    if not left or not right:
        return 1.0 if left == right else 0.0
    return dot / math.sqrt(left * right)
