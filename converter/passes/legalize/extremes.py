"""ArgMax and ArgMin, by counting places.

Of equal numbers a target's own operator may give any, ONNX the first or the last. So those places
where the number isn't the extreme are put out of reach:

    first = ReduceMin(place + size * (x < ReduceMax(x)))
    last = ReduceMax(place - size * (x < ReduceMax(x)))

Source: the operator pages ``ArgMax`` and ``ArgMin``.
"""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Builder, DataType, Value, rank
from converter.passes.legalize.formulas import Numbers


def arg(b: Builder, node: onnx_ir.Node) -> Value:
    """The place of an extreme along an axis."""
    x = node.inputs[0]
    assert x is not None
    if not rank(x):
        raise Refused(f"an {node.op_type} of a tensor without axes")
    axis = number(node, "axis", 0) % rank(x)
    kinds = ("ReduceMin", "Greater") if node.op_type == "ArgMin" else ("ReduceMax", "Less")
    beaten = Numbers(b, b.op(kinds[1], x, b.reduce(kinds[0], x, [axis])), DataType.INT64)
    size = b.size(x, axis)
    away = beaten * Numbers.of_size(b, size, DataType.INT64)
    places = Numbers.counted(b, size).expanded(range(1, rank(x) - axis))
    last, keep = number(node, "select_last_index", 0), bool(number(node, "keepdims", 1))
    kind, found = ("ReduceMax", places - away) if last else ("ReduceMin", places + away)
    return b.reduce(kind, found.value, [axis], keep=keep)


REWRITES = {"ArgMax": arg, "ArgMin": arg}
