"""Sequences of tensors: Python's lists."""

from __future__ import annotations

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras.registry import COMPUTED, op


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


def _place(c: Context, at_: int) -> int:
    value = c.number(at_)
    if value is None:
        raise Refused("its place in the sequence is computed", "make it constant")
    return int(value)


@op("SequenceInsert")
def insert(c: Context) -> None:
    """A list with one more."""
    x = c.operand(0)
    if c.has(2):
        place = _place(c, 2)
        c.emit(f"[*{x}[:{place}], {c.arg(1)}, *{x}[{place}:]]")
    else:
        c.emit(f"[*{x}, {c.arg(1)}]")


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
    c.emit(f'ops.convert_to_tensor(len({c.arg(0)}), dtype="int64")')


@op("ConcatFromSequence")
def concat(c: Context) -> None:
    """Joined along an axis, a new one if it says so."""
    function = "stack" if c.attr("new_axis", 0) else "concatenate"
    c.emit(f"ops.{function}({c.arg(0)}, axis={c.attr('axis')})")


@op("SplitToSequence")
def split(c: Context) -> None:
    """Parts along an axis as a list."""
    axis, keep = c.attr("axis", 0), c.attr("keepdims", 1)
    whole = (c.shape(0) or [None])[axis] if c.shape(0) else None
    sizes = c.ints_in(1) if c.has(1) else [1]
    if sizes is None or not isinstance(whole, int):
        raise Refused(COMPUTED, "make the sizes of its parts constant")
    if not c.has(1) and not keep:
        c.emit(f"ops.unstack({c.arg(0)}, axis={axis})")
        return
    if not c.has(1) or c.rank(1) == 0:
        ends = list(range(sizes[0], whole, sizes[0]))
    else:
        ends = [sum(sizes[: at_ + 1]) for at_ in range(len(sizes) - 1)]
    c.emit(f"ops.split({c.arg(0)}, {ends}, axis={axis})")
