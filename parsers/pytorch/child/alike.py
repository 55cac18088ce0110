"""Whether two runs gave the same outputs, lists of found things among them.

A detector's boxes come sorted by score. Where two scores are the same to rounding, another order
is as right, so rows may be in another order, the same one in all outputs that go with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = Any
# A row of a mask has a value for each pixel: so many tell it from the others.
_COLUMNS = 64


def differs(
    want: Mapping[str, Array], got: Mapping[str, Array], limit: float, share: float = 1.0
) -> str:
    """What is not the same, in words that begin with the output's name; empty if nothing is.

    Args:
        want: What one run gave, by output.
        got: What the other gave.
        limit: The largest difference, as a share of an output's largest magnitude.
        share: The least part of integers, and of rows of lists, that have to be the same.
    """
    found = {name: _differs(want[name], got[name], limit, share) for name in want}
    wrong = {name: text for name, text in found.items() if text}
    if wrong and _same_rows(want, got, limit) >= share:
        return ""
    return "; ".join(f"output {name} {text}" for name, text in wrong.items())


def _differs(want: Array, got: Array, limit: float, share: float) -> str:
    if want.dtype != got.dtype:
        return f"is {got.dtype}, not {want.dtype}"
    if want.shape != got.shape:
        return f"has shape {list(got.shape)}, not {list(want.shape)}"
    wrong = int((~_near(want, got, limit)).sum())
    exact = want.dtype.kind == "f"
    if not wrong or (not exact and wrong <= (1 - share) * want.size):
        return ""
    if not exact:
        return f"has {wrong} other values of {want.size}"
    with np.errstate(invalid="ignore"):
        off = np.nanmax(np.abs(want.astype(np.float64) - got.astype(np.float64)), initial=0)
    return f"is off by up to {off:.3g} where values reach {_largest(want):.3g}"


def _largest(array: Array) -> float:
    values = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(values.max(initial=0.0))


def _near(want: Array, got: Array, limit: float) -> Array:
    if want.dtype.kind != "f":
        return want == got
    floor = limit * max(_largest(want), 1e-6)
    return np.isclose(got.astype(np.float64), want.astype(np.float64), 0.0, floor, equal_nan=True)


def _same_rows(want: Mapping[str, Array], got: Mapping[str, Array], limit: float) -> float:
    """The part of the rows of lists that are in both, in any order; 0.0 where these are no lists.

    All outputs have to have as many rows as the others of their run.
    """
    rows = {one.shape[0] if one.ndim else -1 for one in want.values()}
    others = {one.shape[0] if one.ndim else -1 for one in got.values()}
    if len(rows) != 1 or len(others) != 1 or len(want) < 2:
        return 0.0
    count, other = rows.pop(), others.pop()
    if any(want[n].shape[1:] != got[n].shape[1:] or want[n].dtype != got[n].dtype for n in want):
        return 0.0
    if not min(count, other):
        return float(count == other)
    same = np.ones((count, other), bool)
    for name in want:
        same &= _pairs(want[name], got[name], limit)
    return _matched(same) / max(count, other)


def _pairs(want: Array, got: Array, limit: float) -> Array:
    """Which row of the one is which of the other, for one output: a table of booleans."""
    one, other = (a.reshape(len(a), -1).astype(np.float64) for a in (want, got))
    step = max(1, one.shape[1] // _COLUMNS)
    floor = limit * max(_largest(want), 1e-6) if want.dtype.kind == "f" else 0.0
    return np.isclose(one[:, None, ::step], other[None, :, ::step], 0.0, floor, equal_nan=True).all(
        2
    )


def _matched(same: Array) -> int:
    """How many rows find one of their own, each the first that is free."""
    taken: dict[int, int] = {}
    for row, candidates in enumerate(same):
        free: list[Any] = [c for c in np.flatnonzero(candidates) if c not in taken]
        first: Any | None = free[0] if free else None
        if first is not None:
            taken[int(first)] = row
    return len(taken)
