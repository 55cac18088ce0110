"""ArgMax and ArgMin.

Of equal numbers, MIL's ``reduce_argmax`` gives any ("the identity of the return value is not
guaranteed"), ONNX the first or the last. So places are counted, and those that are less than the
largest put out of reach:

    first = reduce_min(place + size * (x < reduce_max(x)))
    last = reduce_max(place - size * (x < reduce_max(x)))
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.graph.attributes import number
from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import size


@lowers("ArgMax", "ArgMin")
def arg(context: Context, node: onnx_ir.Node) -> None:
    """The place of an extreme along an axis."""
    x = context.var(node.inputs[0])
    made = place_of(
        context,
        x,
        number(node, "axis", 0) % max(len(x.shape), 1),
        smallest=node.op_type == "ArgMin",
        last=bool(number(node, "select_last_index", 0)),
        keep=bool(number(node, "keepdims", 1)),
    )
    context.give(node.outputs[0], made)


def place_of(context: Context, x: Var, axis: int, *, smallest: bool, last: bool, keep: bool) -> Var:
    """Where the largest or smallest number along an axis is.

    Args:
        context: Where it goes.
        x: Numbers, of one axis or more.
        axis: Not negative.
        smallest: Whether it is the smallest.
        last: Whether it is the last of equal ones, not the first.
        keep: Whether the axis stays, with one element.
    """
    extreme = context.op(
        "reduce_min" if smallest else "reduce_max", x=x, axes=[axis], keep_dims=True
    )
    beaten = context.op("greater" if smallest else "less", x=x, y=extreme)
    count = size(context, x, axis)
    away = context.op(
        "mul",
        x=context.cast(beaten, "int32"),
        y=context.const(count) if isinstance(count, int) else count,
    )
    kinds = ("sub", "reduce_max") if last else ("add", "reduce_min")
    found = context.op(kinds[0], x=_places(context, x, axis), y=away)
    return context.op(kinds[1], x=found, axes=[axis], keep_dims=keep)


def _places(context: Context, x: Var, axis: int) -> Var:
    """0, 1, 2... along an axis; it broadcasts to ``x``."""
    count, after = size(context, x, axis), len(x.shape) - 1 - axis
    if isinstance(count, int):
        return context.const(np.arange(count, dtype=np.int32).reshape(-1, *[1] * after))
    end = context.op("squeeze", x=count, axes=[0])
    numbers = context.op("range_1d", start=context.const(0), end=end, step=context.const(1))
    if not after:
        return numbers
    return context.op("expand_dims", x=numbers, axes=list(range(1, after + 1)))
