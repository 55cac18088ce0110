"""Has OnnxSlim compare each constant with those that may equal it, not with all of its shape.

OnnxSlim (0.1.98, ``core/optimization/weight_tying.py``) compares every pair of small constants of
one shape: in a network of like layers that was half of its processor time at 1,600 nodes already,
and four times as much with each doubling. Here constants are first put together by what they hold,
zeros of either sign alike; its own comparison decides within each group, so the result is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Tie = Callable[[Sequence[Any]], None]
"""What makes the constants of one shape that are equal one; they are OnnxSlim's ``Constant``."""


def compare_alike() -> None:
    """Puts :func:`by_contents` around OnnxSlim's comparison, once."""
    from onnxslim.core.optimization import weight_tying

    tie = weight_tying.find_and_remove_replaceable_constants
    if not hasattr(tie, "pairs"):
        weight_tying.find_and_remove_replaceable_constants = by_contents(tie)


def by_contents(tie: Tie) -> Tie:
    """``tie``, called for each group of constants that may be equal, in their order."""

    def grouped(constants: Sequence[Any]) -> None:
        groups: dict[object, list[Any]] = {}
        for constant in constants:
            groups.setdefault(_holds(constant), []).append(constant)
        for group in groups.values():
            tie(group)

    grouped.pairs = tie  # type: ignore[attr-defined]
    return grouped


def _holds(constant: Any) -> object:
    """The same for constants that are equal; maybe for others, too."""
    stored = constant._values  # ``values`` would keep what it loads, and compare otherwise
    array = stored.load() if hasattr(stored, "load") else stored
    if array.dtype.kind in "OUS":
        return str(array.dtype), repr(array.tolist())
    array = array.copy()
    array[array == 0] = 0
    return str(array.dtype), array.shape, array.tobytes()
