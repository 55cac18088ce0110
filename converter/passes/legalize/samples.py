"""Samples along axes that are added up for places between pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from converter.passes.legalize.builder import Builder, DataType, Size
from converter.passes.legalize.formulas import Numbers


@dataclass(frozen=True)
class Sample:
    """One of the samples that are added along an axis: its index and weight for each place."""

    index: Numbers
    weight: Numbers


def cubic_weights(part: Numbers, a: float) -> list[Numbers]:
    """The weights of the four samples around a place, ``part`` behind the second.

    Formula: R. G. Keys, "Cubic convolution interpolation for digital image processing" (1981).
    """
    near, far = part, 1.0 - part

    def outer(x: Numbers) -> Numbers:
        x = x + 1.0
        return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a

    def inner(x: Numbers) -> Numbers:
        return (x * (a + 2) - (a + 3)) * x * x + 1.0

    return [outer(near), inner(near), inner(far), outer(far)]


def flat_index(b: Builder, indices: Sequence[Numbers], sizes: Sequence[Size]) -> Numbers:
    """Indices along several axes as one index into all elements.

    Args:
        b: Where nodes go.
        indices: For each axis, the outermost first; their shapes broadcast.
        sizes: Of the same axes, in elements.

    Returns:
        int64.
    """
    whole = indices[0].of(DataType.INT64)
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        whole = whole * Numbers.of_size(b, size, DataType.INT64) + index.of(DataType.INT64)
    return whole
