"""Finds which of a candidate's rows stands for which of the reference's, in lists of found things.

A detector gives its boxes by score. Where two scores are the same to rounding, another order is as
right: the rows are compared as if they stood where the reference has them.

    Given:   reference: scores 0.9, 0.7, 0.7     labels 1, 2, 3
             candidate: scores 0.9, 0.7, 0.7     labels 1, 3, 2
    Result:  the candidate's last two rows change places: 2 of 3 moved

A row moves only to a place that ties with its own, in all scores (floats of one number a row) of
the reference, and with its own scores there; and only where it is the reference's: other integers
are the same, other floats near. Rows move in full circles: one that is nobody's stays, with all
whose places hang on it. Values are judged afterwards, wherever rows stand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from converter.check.sums import Array, as_float, is_float

if TYPE_CHECKING:
    from converter.ir.lists import Rows

MOST = 2000
"""Rows of nearly one score beyond which none of them is moved: each is compared with each."""

LOOSEST = 0.01
"""The largest share by which two scores may differ that tie: what int8 is held to."""

_ROOM = 2**22
"""Values that are compared at once."""


@dataclass(frozen=True)
class Matching:
    """What may be matched.

    Attributes:
        lists: The outputs that are lists.
        ties: Two scores that differ by no more than this share of the larger one tie.
    """

    lists: Sequence[Rows] = ()
    ties: float = 0.0

    @classmethod
    def of(cls, lists: Sequence[Rows], cosine: float) -> Matching:
        """For what has to keep to a ``cosine``: its scores may be off by as much as that may be."""
        return cls(lists, min(1 - cosine, LOOSEST))

    def matched(
        self, reference: Mapping[str, Array], candidate: Mapping[str, Array]
    ) -> Iterator[Matched]:
        """Each list that can be compared row by row."""
        for rows in self.lists:
            counts: dict[int, list[str]] = {}
            for name in rows.outputs:
                both = name in candidate and name in reference
                if both and candidate[name].ndim == reference[name].ndim > rows.axis:
                    counts.setdefault(reference[name].shape[rows.axis], []).append(name)
            for names in counts.values():
                pairs = {name: (reference[name], candidate[name]) for name in names}
                found = _matched(pairs, rows.axis, self.ties)
                if found is not None:
                    yield found


@dataclass(frozen=True)
class Matched:
    """A list of one sample.

    Attributes:
        outputs: Its outputs' names.
        arrays: The candidate's, its rows where the reference has them; none where they
            stay where they are.
        rows: How many the reference has.
        moved: Rows that stood elsewhere.
        told: What more or fewer rows have in common with the reference's.
    """

    outputs: tuple[str, ...]
    arrays: Mapping[str, Array]
    rows: int
    moved: int = 0
    told: str = ""


def _matched(pairs: Mapping[str, tuple[Array, Array]], axis: int, ties: float) -> Matched | None:
    names = tuple(pairs)
    if any(not _comparable(r, c, axis) for r, c in pairs.values()):
        return None
    found = {c.shape[axis] for _, c in pairs.values()}
    wanted = {r.shape[axis] for r, _ in pairs.values()}
    if not any(_is_score(r, axis) for r, _ in pairs.values()) or len(found) != 1:
        return None
    if found != wanted:
        return None if axis else Matched(names, {}, wanted.pop(), told=_told(pairs, ties))
    if not axis:
        order = _order(_Lists(pairs, ties))
    else:
        items = range(next(iter(pairs.values()))[0].shape[0])
        one = ({n: (r[at], c[at]) for n, (r, c) in pairs.items()} for at in items)
        order = np.stack([_order(_Lists(item, ties)) for item in one]) if items else np.empty(0)
    moved = int(np.count_nonzero(order != np.arange(order.shape[-1])))
    arrays = {n: _taken(c, order) for n, (_, c) in pairs.items()} if moved else {}
    return Matched(names, arrays, order.size, moved)


def _comparable(r: Array, c: Array, axis: int) -> bool:
    kinds = [is_float(each.dtype) for each in (r, c)]
    same = r.shape[:axis] == c.shape[:axis] and r.shape[axis + 1 :] == c.shape[axis + 1 :]
    return same and kinds[0] == kinds[1] and "c" not in (r.dtype.kind, c.dtype.kind)


def _is_score(array: Array, axis: int) -> bool:
    return array.ndim == axis + 1 and is_float(array.dtype)


def _taken(array: Array, order: Array) -> Array:
    """``array`` with its rows in ``order``: of one list, or one order for each in a batch."""
    if order.ndim == 1:
        return array[order]
    return np.stack([item[rows] for item, rows in zip(array, order, strict=True)])


class _Lists:
    """One list of the reference and one of the candidate, and which rows may be the same.

    Attributes:
        scores: Pairs of float64 [rows].
        exact: Pairs of [rows, columns] that have to be the same.
        near: Pairs of float64 [rows, columns], as shares of the reference's longest row.
        ties: As in :class:`Matching`.
        limit: How far a row may be from the one that it stands for: as the scale gate has it
            where ``ties`` is what a cosine may fall short of 1.
    """

    def __init__(self, pairs: Mapping[str, tuple[Array, Array]], ties: float) -> None:
        self.ties, self.limit = ties, math.sqrt(2 * ties)
        self.scores, self.exact, self.near = [], [], []
        for r, c in pairs.values():
            if not is_float(r.dtype):
                self.exact.append((_table(r), _table(c)))
                continue
            one, other = (_table(np.nan_to_num(as_float(a), posinf=0, neginf=0)) for a in (r, c))
            longest = float(np.max(np.linalg.norm(one, axis=1), initial=0.0)) or 1.0
            self.near.append((one / longest, other / longest))
            if r.ndim == 1:
                self.scores.append((as_float(r), as_float(c)))

    def candidates(self, row: int, among: Array) -> Array:
        """Which of the candidate's rows ``among`` have the scores and integers of ``row``."""
        for r, c in self.scores:
            among = among[_tied(c[among], r[row], self.ties)]
        for r, c in self.exact:
            among = among[(c[among] == r[row]).all(axis=1)]
        return among

    def tied_places(self, row: int, among: Array) -> Array:
        """Which places ``among`` have the scores of ``row`` in the reference."""
        for r, _ in self.scores:
            among = among[_tied(r[among], r[row], self.ties)]
        return among

    def distance(self, rows: Array, others: Array) -> Array:
        """How far the candidate's ``others`` are from the reference's ``rows``: [rows]."""
        found = np.zeros(len(rows))
        for r, c in self.near:
            step = max(1, _ROOM // max(r.shape[1], 1))
            for at in range(0, len(rows), step):
                part = slice(at, at + step)
                off = np.linalg.norm(r[rows[part]] - c[others[part]], axis=1)
                found[part] = np.maximum(found[part], off)
        for r, c in self.exact:
            found[(r[rows] != c[others]).any(axis=1)] = np.inf
        return found


def _table(array: Array) -> Array:
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _tied(scores: Array, score: Array, ties: float) -> Array:
    """NaN and Inf tie with nothing."""
    with np.errstate(invalid="ignore"):
        largest = np.maximum(np.abs(scores), np.abs(score))
        tied: Array = np.abs(scores - score) <= ties * largest
    return tied


def _order(lists: _Lists) -> Array:
    """The candidate's row for each of the reference's: [rows]."""
    count = len(lists.scores[0][0])
    order = np.arange(count)
    own = lists.distance(order, order)
    astray = order[own > lists.ties]
    picks: list[tuple[float, int, int]] = [(own[row], row, row) for row in astray]
    for row, near in _windows(lists.scores[0][0], astray, lists.scores[0][0], astray, lists.ties):
        near = lists.candidates(row, lists.tied_places(row, near))
        near = near[near != row]
        far = lists.distance(np.full(len(near), row), near)
        picks += [(d, row, int(at)) for d, at in zip(far, near, strict=True) if d <= lists.limit]
    for row, other in _circles(_closest(picks)):
        order[row] = other
    return order


def _windows(
    scores: Array, rows: Array, others: Array, among: Array, ties: float
) -> Iterator[tuple[int, Array]]:
    """Each of ``rows`` with those of ``among`` whose ``others`` may tie with its score."""
    ordered = among[np.argsort(others[among], kind="stable")]
    values = others[ordered]
    for row in rows[np.isfinite(scores[rows])]:
        room = 2 * ties * abs(scores[row])
        first = int(np.searchsorted(values, scores[row] - room, "left"))
        last = int(np.searchsorted(values, scores[row] + room, "right"))
        if last - first <= MOST:
            yield int(row), ordered[first:last]


def _closest(picks: list[tuple[float, int, int]]) -> dict[int, int]:
    """Pairs of a row and another's, each in one pair at most: the closest first."""
    rows: dict[int, int] = {}
    others: set[int] = set()
    for _, row, other in sorted(picks):
        if row not in rows and other not in others:
            rows[row] = other
            others.add(other)
    return rows


def _circles(picks: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """The pairs whose rows only change places among themselves."""
    for start in picks:
        at = picks[start]
        while at != start and at in picks:
            at = picks[at]
        if at == start:
            yield start, picks[start]


def _told(pairs: Mapping[str, tuple[Array, Array]], ties: float) -> str:
    """What lists of different lengths have in common: ``19 of its 20 rows are the source's...``"""
    lists = _Lists(pairs, ties)
    wanted, found = lists.scores[0]
    picks: list[tuple[float, int, int]] = []
    everything = np.arange(len(wanted)), np.arange(len(found))
    for row, near in _windows(wanted, everything[0], found, everything[1], ties):
        near = lists.candidates(row, near)
        far = lists.distance(np.full(len(near), row), near)
        picks += [(d, row, int(at)) for d, at in zip(far, near, strict=True) if d <= lists.limit]
    same = _closest(picks)
    rows, others = (np.array(list(side), np.int64) for side in (same, same.values()))
    off = float(np.max(lists.distance(rows, others), initial=0.0))
    text = f"{len(same)} of its {len(found)} rows are the source's"
    text += f", differing by at most {off:.2g} of the longest" if same else ""
    for scores, matched, whose in ((wanted, rows, "the source alone"), (found, others, "it alone")):
        left = np.delete(scores, matched)
        if left.size:
            text += f"; {left.size} of {whose}, of {_span(left)}"
    return text


def _span(scores: Array) -> str:
    low, high = float(scores.min()), float(scores.max())
    return f"score {low:.6g}" if low == high else f"scores {low:.6g} to {high:.6g}"
