"""Shapes, borders and parts, as numbers and expressions: what tables of any framework ask."""

from __future__ import annotations

import numpy as np

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.literals import number
from emitters.code.sizes import Dim, Element

_FAR = 2**31 - 2


def as_tuple(c: Context, sizes: list[Element]) -> str:
    """Sizes as they are given to a function."""
    inside = ", ".join(c.element(size) for size in sizes)
    return f"({inside},)" if len(sizes) == 1 else f"({inside})"


def copied(c: Context, sizes: list[Element]) -> list[Element]:
    """The sizes of a Reshape, whose zeros are the input's."""
    if 0 not in sizes or c.attr("allowzero", 0):
        return sizes
    c.need_rank(0)
    shape = c.shape(0) or []
    own = [size if isinstance(size, int) else Dim(c.value(0), i) for i, size in enumerate(shape)]
    return [own[i] if size == 0 else size for i, size in enumerate(sizes)]


def is_stretched(c: Context, sizes: list[Element]) -> bool:
    """Whether an Expand surely stretches each axis to a size, or has it."""
    shape = c.shape(0)
    if shape is None or len(sizes) < len(shape):
        return False
    own = [1] * (len(sizes) - len(shape)) + list(shape)
    return all(_stretches(size, mine) for size, mine in zip(sizes, own, strict=True))


def _stretches(size: Element, mine: object) -> bool:
    if mine == 1:
        return True
    if isinstance(size, int):
        return size != 1
    return isinstance(size, Dim) and size.symbol is not None and size.symbol == mine


def span(c: Context, start: Element, end: Element, step: int) -> str:
    """A part along an axis, as an index: ``2:-1``.

    Args:
        c: At the node.
        start: The first place.
        end: The place behind the last; a very large one goes to the end.
        step: From place to place, above 0.
    """
    first = "" if start == 0 else c.element(start)
    last = "" if isinstance(end, int) and end > _FAR else c.element(end)
    wide = not all(part.lstrip("-").isdigit() for part in (first, last) if part)
    colon = (" " if first and wide else "") + ":" + (" " if last and wide else "")
    return f"{first}{colon}{last}" + (f":{step}" if step != 1 else "")


def borders(c: Context) -> list[tuple[int, int]]:
    """What a Pad adds before and behind each axis; raises Refused where it is computed."""
    pads, axes = c.ints_in(1), c.ints_in(3) if c.has(3) else None
    if pads is None or (c.has(3) and axes is None):
        raise Refused("its borders are computed", "make them constant")
    rank = c.need_rank(0)
    pairs = [(0, 0)] * rank
    axes = list(range(rank)) if axes is None else axes
    for place, axis in enumerate(axes):
        pairs[axis % rank] = (pads[place], pads[place + len(axes)])
    return pairs


def steps_of(c: Context, computed: str = "") -> list[str]:
    """The ends and the step of a Range, without those that frameworks take by themselves.

    Args:
        c: At the node.
        computed: What gives a number of an operand ``{x}``; empty where nothing can.
    """
    ends = []
    for at in range(3):
        sizes, array = c.sizes(at), c.array(at)
        if array is not None and array.size == 1:
            ends.append(number(array.reshape(-1)[0]))
        elif sizes:
            ends.append(c.element(sizes[0]))
        elif computed:
            ends.append(computed.format(x=c.operand(at)))
        else:
            raise Refused("its ends or step are computed", "make them constant")
    if ends[2] in ("1", "1.0"):
        return ends[1:2] if ends[0] in ("0", "0.0") else ends[:2]
    return ends


def filling(c: Context) -> str:
    """The number of a ConstantOfShape."""
    value = c.attr("value")
    return number(value.numpy().reshape(-1)[0] if value is not None else np.float32(0))
