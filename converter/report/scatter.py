"""Artifacts as a drawing: accuracy over latency, larger marks for larger files.

A mark's shape is its target, its colour and outline its precision, and it is filled where no other
row beats it in accuracy, latency and size. A line joins those that are closest for their latency.
Each mark is a link to its row.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from converter.report.compared import Accuracy, Row
from converter.report.svg import WIDTH, Axis, decade, text_at, x_grid, y_grid
from converter.text import words
from converter.text.markup import Markup

_SHAPES = (
    "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0z",  # circle
    "M-.9,-.9h1.8v1.8h-1.8z",
    "M0,-1.15L1.1,.85H-1.1z",
    "M0,-1.2L1.2,0L0,1.2L-1.2,0z",
    "M0,1.15L1.1,-.85H-1.1z",
    "M-.4,-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z",  # plus
)
"""Paths of a radius of 1."""

_TOP, _BOTTOM, _LEFT, _RIGHT = 22.0, 262.0, 62.0, WIDTH - 18.0
_SMALL, _LARGE = 4.5, 11.0
_EXACT = 1e-16


def scatter(rows: Sequence[Row], front: Collection[str], ship: str) -> Markup | None:
    """Accuracy over latency, or over size where no latency is known; None without two such rows.

    Args:
        rows: In the order of the page's rows: marks lead to ``#row-1`` and so on.
        front: The names of those that no other beats.
        ship: The name of the one to ship; empty for none.
    """
    accuracy = Accuracy.of(rows)
    timed = any(row.p50_ms is not None for row in rows)
    places = [(number, row, across, up) for number, row in enumerate(rows, 1)
              if (across := row.p50_ms if timed else row.bytes) and
              (up := accuracy.value(row)) is not None]  # fmt: skip
    if len(places) < 2:
        return None
    x = _across([float(across) for _, _, across, _ in places])
    y = _up([up for *_, up in places], accuracy)
    targets = list(dict.fromkeys(row.target for _, row, _, _ in places))
    precisions = list(dict.fromkeys(row.precision for _, row, _, _ in places))
    most = max((row.bytes or 0 for _, row, _, _ in places), default=0) or 1
    parts = [y_grid(y, x, _most(accuracy)), _numbers(x, timed), _captions(accuracy, timed)]
    parts.append(_line([(x.at(across), y.at(max(up, _floor(accuracy))))
                        for _, row, across, up in places if row.usable]))  # fmt: skip
    names = list[Markup]()
    # the largest first, so that small marks lie on top
    for number, row, across, up in sorted(places, key=lambda place: -(place[1].bytes or 0)):
        radius = _SMALL + (_LARGE - _SMALL) * math.sqrt((row.bytes or 0) / most)
        at = x.at(across), y.at(max(up, _floor(accuracy)))
        look = targets.index(row.target), precisions.index(row.precision)
        parts.append(_mark(number, row, at, radius, look, row.name in front, row.name == ship))
        if row.name in front or row.name == ship:
            names.append(_name(number, at, radius, row.name == ship))
    parts += names
    height = _keys(parts, targets, precisions)
    return _figure(parts, height, len(places), len(rows), accuracy, timed)


def _floor(accuracy: Accuracy) -> float:
    return -math.inf if accuracy.metric else _EXACT


def _most(accuracy: Accuracy) -> float:
    """What no value exceeds: a share's 100, though its axis leaves room for the marks."""
    return 100 if accuracy.unit == "%" and accuracy.higher_is_better else math.inf


def _across(values: Sequence[float]) -> Axis:
    low, high = min(values), max(values)
    if high > 8 * low:
        return Axis(decade(low, math.floor), decade(high, math.ceil), _LEFT, _RIGHT, log=True)
    return Axis(0, high * 1.08, _LEFT, _RIGHT)


def _up(values: Sequence[float], accuracy: Accuracy) -> Axis:
    """The better, the higher."""
    if not accuracy.metric:
        known = [max(value, _EXACT) for value in values]
        low, high = decade(min(known), math.floor), decade(max(known), math.ceil)
        return Axis(low, high, _TOP, _BOTTOM, log=True)
    low, high = min(values), max(values)
    room = (high - low or abs(high) or 1) * 0.1
    ends = (_BOTTOM, _TOP) if accuracy.higher_is_better else (_TOP, _BOTTOM)
    return Axis(low - room, high + room, *ends)


def _numbers(x: Axis, timed: bool) -> Markup:
    if timed:
        return x_grid(x, _TOP, _BOTTOM, x.ticks(5), None)
    drawn = x_grid(x, _TOP, _BOTTOM, x.ticks(4), " ")
    named = (text_at(x.at(tick), _BOTTOM + 14, words.size(round(tick)), "tick middle")
             for tick in x.ticks(4))  # fmt: skip
    return drawn + Markup("").join(named)


def _captions(accuracy: Accuracy, timed: bool) -> Markup:
    unit = f", {accuracy.unit}" if accuracy.unit else ""
    up = f"{accuracy.metric}{unit}" if accuracy.metric else "1 \N{MINUS SIGN} cosine to the source"
    across = "median latency at batch 1, ms" if timed else "size"
    better = "better: up and to the left"
    return (
        text_at(4, 12, up, "tick")
        + text_at(_RIGHT, 12, better, "tick end")
        + text_at(_RIGHT, _BOTTOM + 32, across, "tick end")
    )


def _line(places: Sequence[tuple[float, float]]) -> Markup:
    """From left to right through the marks of which no other is both farther left and higher."""
    first = list[tuple[float, float]]()
    for place in sorted(places):
        if not first or place[1] < first[-1][1]:
            first.append(place)
    points = " ".join(f"{px},{py}" for px, py in first)
    return Markup('<polyline class="front" points="{}"/>').format(points)


def _mark(
    number: int, row: Row, at: tuple[float, float], radius: float, look: tuple[int, int],
    first: bool, ship: bool,
) -> Markup:  # fmt: skip
    shape, colour = look
    classes = " ".join(filter(None, ("point", f"p{colour % 4}", "first" if first else "")))
    ring = Markup('<circle class="ring" cx="{}" cy="{}" r="{}"/>').format(*at, round(radius + 5, 1))
    drawn = Markup(
        '<a href="#row-{}" aria-label="{name}"><title>{name}</title>'
        '<path class="{}" d="{}" transform="translate({},{}) scale({})"/></a>'
    ).format(
        number, classes, _SHAPES[shape % len(_SHAPES)], *at, round(radius, 2),
        name=f"{number}. {row.name}: {_told(row)}",
    )  # fmt: skip
    return ring + drawn if ship else drawn


def _name(number: int, at: tuple[float, float], radius: float, ship: bool) -> Markup:
    """A row's number above its mark."""
    text = f"{number}, ship this" if ship else str(number)
    place = min(max(at[0], _LEFT + 30 * ship), _RIGHT - 30 * ship)
    return text_at(place, at[1] - radius - (9 if ship else 4), text, "tick middle")


def _told(row: Row) -> str:
    told = [row.verdict, f"cosine {words.cosine(row.cosine)}"]
    if row.value is not None:
        told.append(f"{row.metric} {words.number(row.value)}{row.unit}")
    if row.p50_ms is not None:
        told.append(f"{words.milliseconds(row.p50_ms)} ms")
    return ", ".join([*told, words.size(row.bytes)])


def _keys(parts: list[Markup], targets: Sequence[str], precisions: Sequence[str]) -> float:
    """Draws what shapes and colours stand for; gives the height."""
    top = _BOTTOM + 54
    shape = Markup('<path class="point" d="{}" transform="translate({},{}) scale(6)"/>')
    colour = Markup('<rect class="point first p{}" x="{}" y="{}" width="22" height="10"/>')
    for number, name in enumerate(targets):
        parts.append(shape.format(_SHAPES[number % len(_SHAPES)], 20, top + 20 * number))
        parts.append(text_at(36, top + 4 + 20 * number, words.middle(name, 22), "tick"))
    for number, name in enumerate(precisions):
        parts.append(colour.format(number % 4, 220, top - 5 + 20 * number))
        parts.append(text_at(250, top + 4 + 20 * number, words.middle(name, 22), "tick"))
    return top + 20 * max(len(targets), len(precisions))


def _figure(
    parts: Sequence[Markup], height: float, drawn: int, every: int, accuracy: Accuracy, timed: bool
) -> Markup:
    what = accuracy.metric or "distance to the source"
    about = (
        f"{drawn} of {every} artifacts, by {what} and {'median latency' if timed else 'size'}. "
        "The table below has the same figures."
    )
    pattern = Markup(
        '<svg viewBox="0 0 {} {}" role="group" aria-labelledby="scatter-title scatter-desc">'
        '<title id="scatter-title">{}</title><desc id="scatter-desc">{}</desc>{}</svg>'
    )
    title = f"Accuracy over {'latency' if timed else 'size'}"
    return pattern.format(WIDTH, round(height), title, about, Markup("").join(parts))
