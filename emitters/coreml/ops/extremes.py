"""ArgMax and ArgMin.

Of equal numbers, MIL's ``reduce_argmax`` gives any ("the identity of the return value is not
guaranteed"), ONNX the first or the last. So places are counted, and those that are less than the
largest put out of reach:

    first = reduce_min(place + size * (x < reduce_max(x)))
    last = reduce_max(place - size * (x < reduce_max(x)))
"""

from __future__ import annotations

import onnx_ir

from converter.graph.attributes import number
from emitters.coreml.context import Context
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import counted, size


@lowers("ArgMax", "ArgMin")
def arg(context: Context, node: onnx_ir.Node) -> None:
    """The place of an extreme along an axis."""
    x = context.var(node.inputs[0])
    axis = number(node, "axis", 0) % max(len(x.shape), 1)
    kinds = ("reduce_min", "greater") if node.op_type == "ArgMin" else ("reduce_max", "less")
    extreme = context.op(kinds[0], x=x, axes=[axis], keep_dims=True)
    beaten = context.op(kinds[1], x=x, y=extreme)
    count = size(context, x, axis)
    away = context.op(
        "mul",
        x=context.cast(beaten, "int32"),
        y=context.const(count) if isinstance(count, int) else count,
    )
    kinds = ("add", "reduce_min")
    if number(node, "select_last_index", 0):
        kinds = ("sub", "reduce_max")
    places = counted(context, count)
    after = len(x.shape) - 1 - axis
    if after:
        places = context.op("expand_dims", x=places, axes=list(range(1, after + 1)))
    found = context.op(kinds[0], x=places, y=away)
    keep = bool(number(node, "keepdims", 1))
    context.give(node.outputs[0], context.op(kinds[1], x=found, axes=[axis], keep_dims=keep))
