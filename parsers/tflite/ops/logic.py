"""Comparisons, logical operators, and choosing by a condition."""

from __future__ import annotations

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.ops.elementwise import operand
from parsers.tflite.registry import lowers

_COMPARISONS = {"EQUAL": "Equal", "NOT_EQUAL": "Equal", "LESS": "Less", "GREATER": "Greater"}
_COMPARISONS |= {"LESS_EQUAL": "LessOrEqual", "GREATER_EQUAL": "GreaterOrEqual"}
_LOGICAL = {"LOGICAL_AND": "And", "LOGICAL_OR": "Or", "LOGICAL_NOT": "Not"}


@lowers(*_COMPARISONS)
def comparison(ctx: Context) -> None:
    """One ONNX operator, negated for NOT_EQUAL."""
    value = ctx.add(_COMPARISONS[ctx.name], operand(ctx, 0), operand(ctx, 1))
    ctx.set(0, ctx.add("Not", value) if ctx.name == "NOT_EQUAL" else value)


@lowers(*_LOGICAL)
def logical(ctx: Context) -> None:
    ctx.set(0, ctx.add(_LOGICAL[ctx.name], *(ctx.raw(i) for i in range(ctx.n_inputs))))


@lowers("SELECT", "SELECT_V2")
def select(ctx: Context) -> None:
    """Where. SELECT takes a vector as a condition on whole rows; SELECT_V2 broadcasts."""
    condition = ctx.raw(0)
    if ctx.name == "SELECT" and ctx.rank(0) == 1 and ctx.rank(1) > 1:
        condition = ctx.reshape(condition, [-1] + [1] * (ctx.rank(1) - 1))
    ctx.set(0, ctx.add("Where", condition, ctx.value(1), ctx.value(2)))


@lowers("WHERE")
def where(ctx: Context) -> None:
    """The places that are true, one a row: NonZero gives them one a column."""
    value = ctx.raw(0)
    if ctx.rank(0) == 0:
        value = ctx.reshape(value, [1])
    places = ctx.transpose(ctx.add("NonZero", value), [1, 0])
    if ctx.rank(0) == 0:  # a scalar has no coordinates
        places = ctx.add("Slice", places, ctx.ints([0]), ctx.ints([0]), ctx.ints([1]))
    ctx.set(0, ctx.cast(places, onnx_ir.DataType.INT64))
