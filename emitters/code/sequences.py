"""Sequences of tensors: Python's lists, in any framework."""

from __future__ import annotations

from collections.abc import Callable

from emitters.code.context import Context
from emitters.code.table import Table


def add_sequences(
    table: Table, place: Callable[[Context, int], str], join: str, stack: str
) -> None:
    """Adds the operators that differ in words alone.

    Args:
        table: A framework's.
        place: How it has places.
        join: What joins a list along an axis: ``torch.cat({x}, dim={axis})``.
        stack: What joins it along a new axis.
    """

    def construct(c: Context) -> None:
        c.emit(f"[{', '.join(c.arg(at) for at in range(len(c.node.inputs)))}]")

    def insert(c: Context) -> None:
        x = c.operand(0)
        if c.has(2):
            at = place(c, 2)
            c.emit(f"[*{x}[:{at}], {c.arg(1)}, *{x}[{at}:]]")
        else:
            c.emit(f"[*{x}, {c.arg(1)}]")

    def erase(c: Context) -> None:
        x = c.operand(0)
        if c.has(1):
            c.emit(f"[y for i, y in enumerate({x}) if i != {place(c, 1)} % len({x})]")
        else:
            c.emit(f"{x}[:-1]")

    def concat(c: Context) -> None:
        text = stack if c.attr("new_axis", 0) else join
        c.emit(text.format(x=c.arg(0), axis=c.attr("axis")))

    for op_type, lower in {
        "SequenceConstruct": construct,
        "SequenceEmpty": lambda c: c.emit("[]"),
        "SequenceAt": lambda c: c.emit(f"{c.operand(0)}[{place(c, 1)}]"),
        "SequenceInsert": insert,
        "SequenceErase": erase,
        "ConcatFromSequence": concat,
    }.items():
        table.op(op_type)(lower)
