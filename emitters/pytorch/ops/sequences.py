"""Sequences of tensors."""

from __future__ import annotations

from converter.ir.refused import Refused
from emitters.code.context import Context
from emitters.code.sequences import add_sequences
from emitters.pytorch.registry import TABLE, op


def _place(c: Context, at: int) -> str:
    value = c.number(at)
    return str(int(value)) if value is not None else f"int({c.arg(at)})"


add_sequences(TABLE, _place, "torch.cat({x}, dim={axis})", "torch.stack({x}, dim={axis})")


@op("SequenceLength")
def length(c: Context) -> None:
    """How many there are."""
    c.emit(f"torch.tensor(len({c.arg(0)}))")


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
