"""Sequences of tensors: Python's lists."""

from __future__ import annotations

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.pytorch.registry import op


@op("SequenceConstruct")
def construct(c: Context) -> None:
    """A list."""
    c.emit(f"[{', '.join(c.arg(at) for at in range(len(c.node.inputs)))}]")


@op("SequenceEmpty")
def empty(c: Context) -> None:
    """A list of nothing."""
    c.emit("[]")


@op("SequenceAt")
def at(c: Context) -> None:
    """One of a list."""
    c.emit(f"{c.operand(0)}[{_place(c, 1)}]")


def _place(c: Context, at_: int) -> str:
    value = c.number(at_)
    return str(int(value)) if value is not None else f"int({c.arg(at_)})"


@op("SequenceInsert")
def insert(c: Context) -> None:
    """A list with one more."""
    if c.has(2):
        x, place = c.operand(0), _place(c, 2)
        c.emit(f"[*{x}[:{place}], {c.arg(1)}, *{x}[{place}:]]")
    else:
        c.emit(f"[*{c.operand(0)}, {c.arg(1)}]")


@op("SequenceErase")
def erase(c: Context) -> None:
    """A list without one, the last if none is named."""
    x = c.operand(0)
    if c.has(1):
        place = _place(c, 1)
        c.emit(f"[y for i, y in enumerate({x}) if i != {place} % len({x})]")
    else:
        c.emit(f"{x}[:-1]")


@op("SequenceLength")
def length(c: Context) -> None:
    """How many there are."""
    c.emit(f"torch.tensor(len({c.arg(0)}))")


@op("ConcatFromSequence")
def concat(c: Context) -> None:
    """Joined along an axis, a new one if it says so."""
    function = "stack" if c.attr("new_axis", 0) else "cat"
    c.emit(f"torch.{function}({c.arg(0)}, dim={c.attr('axis')})")


@op("SplitToSequence")
def split(c: Context) -> None:
    """Parts along an axis as a list."""
    axis, keep = c.attr("axis", 0), c.attr("keepdims", 1)
    if not c.has(1):
        x = f"{c.operand(0)}.split(1, dim={axis})"
        c.emit(f"list({x})" if keep else f"list({c.operand(0)}.unbind({axis}))")
        return
    sizes = c.ints_in(1)
    if sizes is None:
        raise Refused("the sizes of its parts are computed", "make them constant")
    told = str(sizes[0]) if c.rank(1) == 0 else str(sizes)
    c.emit(f"list({c.operand(0)}.split({told}, dim={axis}))")
