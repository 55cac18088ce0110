"""Sequences of tensors."""

from __future__ import annotations

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.keras.registry import COMPUTED, TABLE, op
from emitters.code.sequences import add_sequences


def _place(c: Context, at: int) -> str:
    value = c.number(at)
    if value is None:
        raise Refused("its place in the sequence is computed", "make it constant")
    return str(int(value))


add_sequences(TABLE, _place, "ops.concatenate({x}, axis={axis})", "ops.stack({x}, axis={axis})")


@op("SequenceLength")
def length(c: Context) -> None:
    """How many there are."""
    c.emit(f'ops.convert_to_tensor(len({c.arg(0)}), dtype="int64")')


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
