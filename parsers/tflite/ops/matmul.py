"""Matrix products."""

from __future__ import annotations

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.registry import lowers

_DEFAULT_WEIGHTS = 0
"""``FullyConnectedOptionsWeightsFormat.DEFAULT``."""


@lowers("FULLY_CONNECTED")
def fully_connected(ctx: Context) -> None:
    """Gemm with the weights transposed (they are [out, in]), or MatMul where more than two
    dimensions stay."""
    if ctx.option("weightsFormat") != _DEFAULT_WEIGHTS:
        ctx.refuse("weights in the shuffled 4x16 format")
    rank, depth = ctx.rank(0), ctx.shape(1)[-1]
    if ctx.option("keepNumDims", False) and rank != 2:
        value = ctx.add("MatMul", ctx.value(0), ctx.weights(1, [1, 0]))
        if ctx.has(2):
            value = ctx.add("Add", value, ctx.value(2))
    else:
        rows = ctx.value(0)
        if rank != 2 or ctx.shape(0)[1] != depth:
            rows = ctx.reshape(rows, [-1, depth])
        bias = [ctx.value(2)] if ctx.has(2) else []
        value = ctx.add("Gemm", rows, ctx.value(1), *bias, transB=1)
    ctx.set(0, ctx.activate(value))


@lowers("BATCH_MATMUL")
def batch_matmul(ctx: Context) -> None:
    """MatMul, with the last two dimensions exchanged before where the options say so."""
    x = ctx.value(0)
    if ctx.option("adjX", False):
        x = ctx.transpose(x, _exchanged(ctx.rank(0)))
    y = ctx.weights(1, _exchanged(ctx.rank(1))) if ctx.option("adjY", False) else ctx.value(1)
    value: onnx_ir.Value = ctx.add("MatMul", x, y)
    ctx.set(0, value)


def _exchanged(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]
