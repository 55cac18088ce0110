"""Numbers as Python has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_LARGEST = float(np.finfo(np.float32).max)


def number(item: Any) -> str:
    """A number, the shortest that is the same in its type."""
    if isinstance(item, bool | np.bool_):
        return str(bool(item))
    if isinstance(item, int | np.integer):
        return str(int(item))
    if math.isnan(item):
        return 'float("nan")'
    if math.isinf(item):
        return 'float("inf")' if item > 0 else 'float("-inf")'
    text = str(item if isinstance(item, np.floating) else np.float32(item)).replace("e+", "e")
    if isinstance(item, np.floating) and not isinstance(item, np.float32 | np.float64):
        text = repr(float(item)).replace("e+", "e")  # a number of Python's isn't rounded to halves
    if isinstance(item, np.float32) and abs(float(text)) > _LARGEST:
        text = repr(float(item)).replace("e+", "e")
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def real(item: float) -> str:
    """An attribute, a float of 32 bits that protobuf gives as one of 64."""
    return number(np.float32(item))


def same_or_tuple(items: list[int]) -> str:
    """Numbers for axes: one where all are alike."""
    return str(items[0]) if len(set(items)) == 1 else listed(items)


def listed(items: list[int]) -> str:
    """Numbers as a tuple."""
    inside = ", ".join(map(str, items))
    return f"({inside},)" if len(items) == 1 else f"({inside})"
