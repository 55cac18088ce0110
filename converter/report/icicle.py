"""Where the time of a run goes, as a drawing: layers within layers, time from top to bottom.

Each column is a level of the source's modules, and a box as high as its share of the run: what it
calls stands right of it. A chain of modules of which each has one only is one box.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from converter.report.costs import OF_NONE, OF_UNKNOWN
from converter.report.svg import WIDTH
from converter.runtime.session import Profile
from converter.text import words
from converter.text.markup import Markup

_HEIGHT, _MARGIN, _MOST_COLUMNS = 520.0, 2.0, 5
_LEAST, _LINE = 0.4, 15.0
"""Units below which a box isn't drawn, and from which it has room for its name."""

_LETTER = 7.6
"""Units that a letter takes."""

_BETWEEN = "between operators"
_OTHERS = {OF_NONE, OF_UNKNOWN, _BETWEEN}


@dataclass
class _Layer:
    """A module, or what is of none: its time with that of all within it."""

    path: str = ""
    us: float = 0.0
    within: dict[str, _Layer] = field(default_factory=dict)

    def add(self, parts: list[str], us: float) -> None:
        self.us += us
        if parts:
            path = f"{self.path}.{parts[0]}" if self.path else parts[0]
            self.within.setdefault(parts[0], _Layer(path)).add(parts[1:], us)

    def only(self) -> _Layer | None:
        """Its one part, where all of its time is that one's."""
        parts = [*self.within.values()]
        alone = len(parts) == 1 and parts[0].us >= self.us * (1 - 1e-9)
        return parts[0] if alone else None


@dataclass(frozen=True)
class _Box:
    """A box: its names below those of what is around it, in which column, from where to where."""

    layer: _Layer
    name: str
    column: int
    top: float
    height: float
    colour: int


def icicle(profile: Profile) -> Markup | None:
    """The drawing; None where there is nothing to draw."""
    if not profile.operators or profile.us <= 0:
        return None
    tree = _tree(profile)
    boxes = [*_boxes(tree, 0, 0.0, _HEIGHT / tree.us, None)]
    width = (WIDTH - 2 * _MARGIN) / (1 + max(box.column for box in boxes))
    drawn = [_drawn(box, width, profile.us) for box in boxes]
    label = "Time of a run by layer of the source, from top to bottom"
    svg = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return svg.format(WIDTH, _HEIGHT, label, Markup("").join(drawn))


def _tree(profile: Profile) -> _Layer:
    """Layers in the order in which they first run; what is of none comes last."""
    root = _Layer()
    for item in profile.operators:
        if item.joined and item.layer:
            root.add([part for part in re.split(r"[./]", item.layer) if part], item.us)
    rest = {
        OF_NONE: sum(i.us for i in profile.operators if i.joined and not i.layer),
        OF_UNKNOWN: sum(i.us for i in profile.operators if not i.joined),
        _BETWEEN: profile.outside,
    }
    for name, us in rest.items():
        if us > 0:
            root.add([name], us)
    return root


def _boxes(
    layer: _Layer, column: int, top: float, scale: float, colour: int | None
) -> Iterator[_Box]:
    """The boxes of what is in a layer."""
    for number, (name, inner) in enumerate(layer.within.items()):
        height, own = inner.us * scale, inner
        if height < _LEAST:
            continue
        while (only := own.only()) is not None:
            name, own = f"{name}.{only.path.rpartition('.')[2]}", only
        chosen = number % 4 if colour is None else colour
        yield _Box(own, name, column, top, height, 4 if name in _OTHERS else chosen)
        if column + 1 < _MOST_COLUMNS:
            yield from _boxes(own, column + 1, top, scale, chosen)
        top += height


def _drawn(box: _Box, width: float, whole: float) -> Markup:
    left = _MARGIN + box.column * width
    share = words.percent(box.layer.us / whole)
    told = f"{box.layer.path}: {words.number(box.layer.us)} us, {share}"
    rect = Markup(
        '<g><title>{}</title><rect class="layer l{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" '
        'height="{:.2f}"/>'
    ).format(told, box.colour, left, box.top, width - 1, max(box.height - 0.6, 0.3))
    if box.height < _LINE:
        return rect + Markup("</g>")
    text = Markup('<text class="{}" x="{:.2f}" y="{:.2f}">{}</text>')
    room = int((width - 8) / _LETTER)
    beside = len(box.name) + len(share) + 1 <= room
    name = f"{box.name} {share}" if beside else words.middle(box.name, room)
    lines = text.format("", left + 4, box.top + 12, name)
    if not beside and box.height >= 2 * _LINE:
        lines += text.format("tick", left + 4, box.top + 27, share)
    return rect + lines + Markup("</g>")
