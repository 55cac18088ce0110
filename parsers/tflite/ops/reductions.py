"""Dimensions reduced to one number, or to an index, or summed along."""

from __future__ import annotations

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.ops.elementwise import operand, set_result
from parsers.tflite.registry import lowers

_REDUCTIONS = {"MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_PROD": "ReduceProd"}
_REDUCTIONS |= {"REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin"}


@lowers(*_REDUCTIONS)
def reduction(ctx: Context) -> None:
    set_result(ctx, _reduce(ctx, _REDUCTIONS[ctx.name], operand(ctx, 0)))


@lowers("REDUCE_ANY", "REDUCE_ALL")
def truth(ctx: Context) -> None:
    """The largest, or the smallest, of zeros and ones."""
    ones = ctx.cast(ctx.raw(0), onnx_ir.DataType.INT32)
    op_type = "ReduceMax" if ctx.name == "REDUCE_ANY" else "ReduceMin"
    ctx.set(0, ctx.cast(_reduce(ctx, op_type, ones), onnx_ir.DataType.BOOL))


def _reduce(ctx: Context, op_type: str, value: onnx_ir.Value) -> onnx_ir.Value:
    axes = ctx.integers(1)
    if axes == []:  # no dimension; ONNX takes none for all unless told
        return value
    keep = int(bool(ctx.option("keepDims", False)))
    return ctx.add(op_type, value, ctx.int64(1), keepdims=keep)


@lowers("ARG_MAX", "ARG_MIN")
def arg_extreme(ctx: Context) -> None:
    """ArgMax or ArgMin, the first of equals in both."""
    axis = ctx.integers(1)
    if axis is None:
        ctx.refuse("an axis that isn't constant")
    op_type = "ArgMax" if ctx.name == "ARG_MAX" else "ArgMin"
    found = ctx.add(op_type, operand(ctx, 0), axis=axis[0], keepdims=0)
    ctx.set(0, ctx.cast(found, ctx.output_dtype()))


@lowers("TOPK_V2")
def top_k(ctx: Context) -> None:
    """TopK of the last dimension: values, and indices in the second output's type."""
    values, indices = ctx.add_many("TopK", 2, operand(ctx, 0), ctx.int64(1), axis=-1)
    set_result(ctx, values)
    ctx.set(1, ctx.cast(indices, ctx.output_dtype(1)))


@lowers("CUMSUM")
def cumsum(ctx: Context) -> None:
    flags = {key: int(bool(ctx.option(key, False))) for key in ("exclusive", "reverse")}
    set_result(ctx, ctx.add("CumSum", operand(ctx, 0), ctx.raw(1), **flags))
