"""Det, written out by minors along the first row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

MOST = 4
"""Rows; more would take pivots, to keep rounding small."""


def determinant_of(rows: Sequence[Sequence[T]], compute: Callable[[str, T, T], T]) -> T:
    """The sum of the first row's elements times the determinants of what is left.

    Args:
        rows: The elements, at least one.
        compute: The emitter's operation of a name (add, sub, mul).
    """
    if len(rows) == 1:
        return rows[0][0]
    total: T | None = None
    for column, element in enumerate(rows[0]):
        rest = [[*row[:column], *row[column + 1 :]] for row in rows[1:]]
        term = compute("mul", element, determinant_of(rest, compute))
        total = term if total is None else compute("sub" if column % 2 else "add", total, term)
    assert total is not None
    return total
