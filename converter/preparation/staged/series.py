"""Answers that are values and segments along a sound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from converter.preparation.staged.base import Array, Known, Seen
from converter.preparation.staged.classes import activated


def series(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Values along a sound: windows joined, what they share cut off.

    Args:
        known: The declared answer.
        outputs: The model's outputs by name: [windows, steps, values].
        seen: How many seconds the sound has.
    """
    names, rows = known["names"], along_sound(known, outputs[known["output"]], seen)
    told = rows[:, 0].tolist() if rows.shape[1] == 1 else rows.tolist()
    return {known["name"]: {"rate": known["rate"], **({"names": list(names)} if names else {}),
                            "values": told}}  # fmt: skip


def along_sound(known: Known, values: Array, seen: Seen) -> Array:
    """A sound's values, of those of its windows.

    Args:
        known: The declared answer: steps to cut off each window's ends, and steps a second.
        values: [windows, steps, values], or the windows' values joined.
        seen: How many seconds the sound has: steps beyond its end are cut off.

    Returns:
        [steps, values].
    """
    trim, names = known["trim"], known.get("names")
    width = len(names or ()) or (values.shape[-1] if values.ndim > 2 else 1)
    if values.ndim > 2:
        values = values[:, trim : values.shape[1] - trim]
    return values.reshape(-1, width)[: math.ceil(seen.seconds * known["rate"]) or None]


def segments(known: Known, outputs: Mapping[str, Array], seen: Seen) -> dict[str, Any]:
    """Where a probability is high: from and to, in seconds, and its mean there.

    Args:
        known: The declared answer.
        outputs: The model's outputs by name: [windows, steps, values].
        seen: How many seconds the sound has.
    """
    rows = activated(along_sound(known, outputs[known["output"]], seen), known["activation"])
    values, rate = rows[:, min(known["column"], rows.shape[1] - 1)], known["rate"]
    end = seen.seconds or len(values) / rate
    found = list(spans(values, known, end * rate))
    times = padded([(a / rate, min(b / rate, end)) for a, b in found], known["pad"], end)
    told = [
        {"start": round(first, 4), "end": round(last, 4), "score": float(values[a:b].mean())}
        for (first, last), (a, b) in zip(times, found, strict=True)
    ]
    return {"segments": told}


def spans(values: Array, known: Known, length: float) -> Iterator[tuple[int, int]]:
    """The steps of each segment, the last exclusive, before ``pad`` is added.

    Args:
        values: A probability for each step, [steps].
        known: The declared answer; ``declared.py`` says what each of its numbers does.
        length: Steps of the sound, which may end within the last one.
    """
    rate, high, low = known["rate"], known["threshold"], known["release"]
    low = max(high - 0.15, 0.01) if low is None else low
    most = math.inf
    if known["longest"] is not None:
        most = (known["longest"] - 2 * known["pad"]) * rate - 1
    start, quiet, pauses = -1, -1, list[tuple[int, int]]()
    for step, value in enumerate(values.tolist()):
        if value >= high and quiet >= 0:
            pauses, quiet = [*pauses, (quiet, step)], -1
        if value >= high and start < 0:
            start = step
        elif start >= 0 and step - start > most:
            wide = [(a, b) for a, b in pauses if b - a > BREATH * rate]
            cut, after = max(wide, key=lambda p: p[1] - p[0], default=(step, -1))
            yield start, cut
            start, quiet, pauses = after, -1, []
        if value < low and start >= 0:
            quiet = step if quiet < 0 else quiet
            if step - quiet >= known["pause"] * rate:
                if quiet - start > known["least"] * rate:
                    yield start, quiet
                start, quiet, pauses = -1, -1, []
    if start >= 0 and length - start > known["least"] * rate:
        yield start, len(values)


BREATH = 0.098
"""Seconds of a pause in which a segment that is too long may be cut (Silero's value)."""


def padded(
    found: Sequence[tuple[float, float]], pad: float, end: float
) -> list[tuple[float, float]]:
    """Segments made longer at both ends, as far as there is room.

    Args:
        found: From and to in seconds, in order.
        pad: Seconds to add at each end; neighbours share what is between them.
        end: The sound's length in seconds.
    """
    ends = [0.0, *(second for pair in found for second in pair), end]
    room = [b - a for a, b in zip(ends[::2], ends[1::2], strict=True)]
    inner = [min(pad, gap / 2) for gap in room[1:-1]]
    before, after = [min(pad, room[0]), *inner], [*inner, min(pad, room[-1])]
    return [(a - b, e + f) for (a, e), b, f in zip(found, before, after, strict=False)]
