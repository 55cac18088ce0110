"""What Loop and Scan put together over their rounds, an element in each.

Room for as many rounds as there may be is filled by ``scatter``; where nothing says how many may
come, rows are joined to those before. Core ML has no tensors without elements: such a stack begins
with a row that is dropped at the end. Booleans are int32 meanwhile, which ``scatter`` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir

from emitters.coreml.context import Context, Var
from emitters.coreml.sizing import Size, integer, size, vector
from emitters.coreml.types import NUMPY, held

Sample = Callable[[int], Var]
"""Gives the first round's element of the scan output of that number."""


def stacks(
    context: Context, elements: Sequence[onnx_ir.Value], rounds: Var | None, sample: Sample
) -> list[Var]:
    """For each element room for so many rounds; one row where their number isn't known.

    Args:
        context: Where they go, in front of the loop.
        elements: What the body gives.
        rounds: int32 without axes.
        sample: For sizes that nothing before the loop has: the body is there once more, for
            what it gives to be measured.
    """
    return [_stack(context, value, rounds, sample, i) for i, value in enumerate(elements)]


def _stack(
    context: Context, element: onnx_ir.Value, rounds: Var | None, sample: Sample, number: int
) -> Var:
    kind = held(context.dtype(element)).replace("bool", "int32")
    dims: list[Size] = []
    for axis, dim in enumerate(context.shape(element)):
        found = dim if isinstance(dim, int) else _size_of(context, dim)
        dims.append(size(context, sample(number), axis) if found is None else found)
    shape = vector(context, [_rows(context, rounds), *dims])
    if isinstance(shape, list):
        return context.const(np.zeros(shape, NUMPY[kind]))
    return context.op("fill", shape=shape, value=NUMPY[kind](0))


def _rows(context: Context, rounds: Var | None) -> Size:
    if rounds is None:
        return 1
    if rounds.val is not None:
        return int(rounds.val)
    if not is_size(rounds):
        rounds = context.op("maximum", x=rounds, y=integer(context, 1))
    elif rounds.op.op_type == "squeeze":
        return rounds.op.x
    return context.op("expand_dims", x=rounds, axes=[0])


def is_size(x: Var) -> bool:
    """Whether it is the size of an axis, which is never 0, maybe in another shape or type."""
    while x.op is not None and x.op.op_type in _MOVING:
        x = x.op.x
    return x.op is not None and x.op.op_type == "shape"


_MOVING = ("cast", "expand_dims", "gather", "identity", "reshape", "slice_by_index", "squeeze")


def _size_of(context: Context, name: str) -> Size | None:
    """A free dimension's size, from any variable that has it."""
    for value, var in context.vars.items():
        for axis, dim in enumerate(value.shape or ()):
            if not isinstance(dim, int) and dim.value == name:
                return size(context, var, axis)
    return None


def stacked(
    context: Context, wholes: Sequence[Var], elements: Sequence[Var], place: Var, grows: bool
) -> list[Var]:
    """The stacks with one more element each.

    Args:
        context: Where it goes.
        wholes: The stacks: [rounds, ...].
        elements: One for each, without the first axis.
        place: int32 without axes: the round, where the element goes.
        grows: Whether elements are joined to the stacks' ends, and not put at the place.
    """
    made = []
    for stack, element in zip(wholes, elements, strict=True):
        row = context.op("expand_dims", x=element, axes=[0])
        row = context.cast(row, context.type_of(stack))
        if grows:
            made.append(context.op("concat", values=[stack, row], axis=0))
            continue
        index = context.op("expand_dims", x=place, axes=[0])
        inputs = {"data": stack, "indices": index, "updates": row}
        made.append(context.op("scatter", axis=0, mode="update", **inputs))
    return made


def cut(context: Context, x: Var, first: int, count: Var | None) -> Var:
    """A part of the first axis.

    Args:
        context: Where it goes.
        x: At least one axis.
        first: Where it begins.
        count: int32 without axes: where it ends; None: at the end of ``x``.
    """
    rest = [0] * (len(x.shape) - 1)
    end: list[int] | Var = [0, *rest]
    if count is not None:
        end = vector(context, [context.op("expand_dims", x=count, axes=[0]), *rest])
    mask = [count is None, *(True for _ in rest)]
    return context.op("slice_by_index", x=x, begin=[first, *rest], end=end, end_mask=mask)


def joined(context: Context, elements: Sequence[Var]) -> Var:
    """The elements of all rounds, one after the other."""
    rows = [context.op("expand_dims", x=element, axes=[0]) for element in elements]
    return context.op("concat", values=rows, axis=0) if len(rows) > 1 else rows[0]
