"""Arithmetic on sizes that are numbers where the file says them, and computed where not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir

from parsers.tflite.context import Context

Size = int | onnx_ir.Value
"""A number, or a vector of one int64 that the graph computes."""

_DO: dict[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a // b,
    "Max": max,
}


def size(ctx: Context, i: int, axis: int) -> Size:
    """How large a dimension of an input is.

    Args:
        ctx: The operator.
        i: Which input.
        axis: Counted from the end where it is negative.
    """
    known = ctx.shape(i)[axis]
    axis %= ctx.rank(i)
    return known if known >= 0 else ctx.add("Shape", ctx.raw(i), start=axis, end=axis + 1)


def compute(ctx: Context, op_type: str, a: Size, b: Size) -> Size:
    """What an operator makes of two sizes. Numbers stay numbers.

    Args:
        ctx: Takes the nodes.
        op_type: ``Add``, ``Sub``, ``Mul``, ``Div`` (of what isn't negative) or ``Max``.
        a: The first.
        b: The second.
    """
    if isinstance(a, int) and isinstance(b, int):
        return _DO[op_type](a, b)
    return ctx.add(op_type, *(_value(ctx, item) for item in (a, b)))


def vector(ctx: Context, items: Sequence[Size]) -> onnx_ir.Value:
    """Sizes as a vector of int64, for a shape or for starts and ends."""
    numbers = [item for item in items if isinstance(item, int)]
    if len(numbers) == len(items):
        return ctx.ints(numbers)
    return ctx.add("Concat", *(_value(ctx, item) for item in items), axis=0)


def _value(ctx: Context, item: Size) -> onnx_ir.Value:
    return ctx.const(np.array([item], np.int64)) if isinstance(item, int) else item
