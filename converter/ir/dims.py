"""Sizes of axes as the emitters have them: numbers, or symbols of their own where they are free."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.refused import Refused


def number_of(dim: object) -> int | None:
    """A size as a number; None where it is free."""
    return int(dim) if isinstance(dim, (int, np.integer)) else None


def numbers_of(dims: Sequence[object]) -> list[int] | None:
    """Sizes as numbers; None where one of them is free."""
    found = [number for dim in dims if (number := number_of(dim)) is not None]
    return found if len(found) == len(dims) else None


def dims_of(value: onnx_ir.Value | None) -> list[object]:
    """A value's sizes.

    Raises:
        Refused: Nothing says how many there are.
    """
    if value is None or value.shape is None:
        raise Refused("a tensor with an unknown number of axes")
    return list(value.shape)
