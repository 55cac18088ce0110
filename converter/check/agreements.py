"""Whether two answers to a user's file say the same.

It stands in the self-tests of packages, too, so it needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

OVERLAP, NEAR = 0.9, 0.02
"""Of boxes, or segments, that are one: the least intersection over union; how far scores may
differ."""

SCORED = {"score", "box", "start", "end"}
"""What of an answer is compared by nearness, or not at all."""


def agreements(found: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[bool]:
    """For each thing that an answer says, whether the other says it, too: a box or segment with all
    that is said of it, the best class, a text; of all else, the whole, numbers as near as scores
    have to be."""
    for name, said in right.items():
        other = found.get(name)
        if name in ("boxes", "segments") and isinstance(other, list):
            left = list(other)
            for one in said:
                same = next((item for item in left if _same(item, one)), None)
                if same is not None:
                    left.remove(same)
                yield same is not None
            yield from (False for _ in left)
        elif name == "classes":
            yield bool(other) and _best(other) == _best(said)
        elif isinstance(said, Mapping) and isinstance(other, Mapping):
            yield from agreements(other, said)
        elif name not in SCORED:
            yield _alike(other, said)


def _alike(found: Any, right: Any) -> bool:
    """Whether two values are one; lists of numbers, by the largest."""
    ours, theirs = list(_numbers(found)), list(_numbers(right))
    if None in ours or None in theirs:
        return bool(found == right)
    most = NEAR * max(map(abs, theirs), default=0.0)
    near = (abs(a - b) <= most for a, b in zip(ours, theirs, strict=False))
    return len(ours) == len(theirs) and all(near)


def _numbers(value: Any) -> Iterator[Any]:
    """The numbers of a list of any depth; None for what is none."""
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    else:
        yield value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _same(found: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether it is that box, or that segment: one is a box as wide as it is long."""
    places = [one.get("box") or (one["start"], 0.0, one["end"], 1.0) for one in (found, right)]
    if _overlap(*places) < OVERLAP:
        return False
    near = abs(found.get("score", 0.0) - right.get("score", 0.0)) <= NEAR
    return near and all(agreements(found, right))


def _best(classes: Any) -> Any:
    return [row[0]["index"] if isinstance(row, list) else row["index"] for row in classes[:1]]


def _overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union of two boxes."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0.0) * max(height, 0.0)
    sizes = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return shared / max(sum(sizes) - shared, 1e-12)
