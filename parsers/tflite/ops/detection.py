"""Non-maximum suppression, and small lookups."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.ops.elementwise import operand
from parsers.tflite.registry import lowers


@lowers("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def non_max_suppression(ctx: Context) -> None:
    """NonMaxSuppression of one class; results are filled up with zeros to the largest number,
    and counted. V5 also gives the scores, which a sigma of 0 leaves as they are."""
    soft = ctx.name.endswith("V5")
    sigma = ctx.constant(5) if soft else np.zeros(1)
    if sigma is None or np.any(sigma):
        ctx.refuse("soft suppression, which lowers scores instead of dropping boxes")
    most = ctx.int64(2)
    boxes = ctx.add("Unsqueeze", ctx.value(0), ctx.ints([0]))
    scores = ctx.add("Unsqueeze", ctx.value(1), ctx.ints([0, 1]))
    limits = [ctx.reshape(ctx.value(i), [1]) for i in (3, 4)]
    found = ctx.add("NonMaxSuppression", boxes, scores, most, *limits)
    chosen = ctx.add("Gather", found, ctx.ints([2]), axis=1)
    chosen = ctx.add("Squeeze", chosen, ctx.ints([1]))
    outputs = [ctx.cast(chosen, onnx_ir.DataType.INT32)]
    if soft:
        outputs.append(ctx.add("Gather", ctx.value(1), chosen, axis=0))
    for i, value in enumerate(outputs):
        dtype = ctx.output_dtype(i)
        zeros = ctx.add("ConstantOfShape", most, value=onnx_ir.tensor([0], dtype=dtype))
        filled = ctx.add("Concat", value, zeros, axis=0)
        ctx.set(i, ctx.add("Slice", filled, ctx.ints([0]), most, ctx.ints([0])))
    count = ctx.cast(ctx.add("Size", chosen), onnx_ir.DataType.INT32)
    ctx.set(len(outputs), count)


@lowers("BUCKETIZE")
def bucketize(ctx: Context) -> None:
    """How many boundaries aren't above the value."""
    boundaries = np.array(ctx.option("boundaries", []), np.float32)
    value = ctx.add("Unsqueeze", operand(ctx, 0), ctx.ints([-1]))
    if ctx.dtype(0) != onnx_ir.DataType.FLOAT:
        value = ctx.cast(value, onnx_ir.DataType.FLOAT)
    above = ctx.add("GreaterOrEqual", value, ctx.const(boundaries))
    counted = ctx.cast(above, onnx_ir.DataType.INT32)
    ctx.set(0, ctx.add("ReduceSum", counted, ctx.ints([-1]), keepdims=0))


@lowers("SPARSE_TO_DENSE")
def sparse_to_dense(ctx: Context) -> None:
    """ScatterND onto the default value."""
    places = ctx.int64_like(0)
    if ctx.rank(0) != 2:
        places = ctx.reshape(places, [-1, 1])
    filled = ctx.add("Expand", ctx.value(3), ctx.int64(1))
    values = ctx.value(2)
    if ctx.rank(2) == 0:
        count = ctx.add("Shape", places, start=0, end=1)
        values = ctx.add("Expand", values, count)
    ctx.set(0, ctx.add("ScatterND", filled, places, values))
