"""ReduceSum, ReduceMax and other reductions, over constant axes."""

from __future__ import annotations

from typing import Any

import onnx_ir

from converter.ir.attributes import number
from converter.passes.legalize.reductions import over_nothing
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.arithmetic import truncated
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import product, size

_KINDS = {
    "ReduceL1": "reduce_l1_norm",
    "ReduceL2": "reduce_l2_norm",
    "ReduceLogSum": "reduce_log_sum",
    "ReduceLogSumExp": "reduce_log_sum_exp",
    "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum",
    "ReduceSumSquare": "reduce_sum_square",
}
_ROOTS = ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp")
"""What of integers is a fraction: had in float32, and without its fraction, as in ONNX Runtime."""


@lowers(*_KINDS, legal=lambda node, target: not over_nothing(node))
def reduction(context: Context, node: onnx_ir.Node) -> None:
    """MIL's reduction of the same name; of integers and truth values where that is right."""
    x = context.var(node.inputs[0])
    axes = _axes(context, node, len(x.shape))
    keep = bool(number(node, "keepdims", 1))
    if not x.shape:  # a number is reduced as one element
        x, axes, keep = context.op("expand_dims", x=x, axes=[0]), [0], False
    over = {"axes": axes, "keep_dims": keep}
    context.give(node.outputs[0], _reduced(context, node.op_type, x, over))


def _reduced(context: Context, op_type: str, x: Var, over: dict[str, Any]) -> Var:
    kind, op = context.type_of(x), _KINDS[op_type]
    if kind == "bool":
        made = context.op(op, x=context.cast(x, "int32"), **over)
        return context.op("not_equal", x=made, y=context.const(0))
    if kind != "int32":
        return context.op(op, x=x, **over)
    if op_type in _ROOTS:
        return context.cast(context.op(op, x=context.cast(x, "fp32"), **over), "int32")
    if op_type == "ReduceMean":
        count = product(context, [size(context, x, axis) for axis in over["axes"]])
        total = context.op("reduce_sum", x=x, **over)
        if not isinstance(count, int):
            count = count if total.shape else context.op("squeeze", x=count, axes=[0])
            return truncated(context, total, count)
        return truncated(context, total, context.const(count))
    return context.op(op, x=x, **over)


def _axes(context: Context, node: onnx_ir.Node, rank: int) -> list[int]:
    """The axes to reduce: all where none are named."""
    named = context.given(node, 1, "axes")
    if named is None or not named.size:
        return list(range(rank))
    return sorted({int(axis) % rank if rank else 0 for axis in named.ravel()})
