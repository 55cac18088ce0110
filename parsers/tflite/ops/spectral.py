"""RFFT2D and what reads its complex numbers.

ONNX Runtime computes little with complex tensors, so they are held as DFT gives them: real and
imaginary part in one more dimension at the end.
"""

from __future__ import annotations

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.registry import lowers

COMPLEX = "complex64"
_INT64 = onnx_ir.DataType.INT64


@lowers("RFFT2D")
def rfft2d(ctx: Context) -> None:
    """DFT of the last dimension, of whose results half are kept, then of the one before."""
    lengths = ctx.integers(1)
    if lengths is None:
        ctx.refuse("lengths that aren't constant")
    value = ctx.add("Unsqueeze", ctx.value(0), ctx.ints([-1]))
    rank = ctx.rank(0)
    value = _dft(ctx, value, lengths[1], rank - 1, onesided=1)
    if lengths[0] != 1 or ctx.shape(0)[-2] != 1:
        value = _dft(ctx, value, lengths[0], rank - 2, onesided=0)
    ctx.set_raw(0, value)


def _dft(
    ctx: Context, value: onnx_ir.Value, length: int, axis: int, onesided: int
) -> onnx_ir.Value:
    size, place = ctx.number(length, _INT64), ctx.number(axis, _INT64)
    return ctx.add("DFT", value, size, place, onesided=onesided)


@lowers("REAL", "IMAG")
def part(ctx: Context) -> None:
    """One of the two."""
    index = ctx.number(0 if ctx.name == "REAL" else 1, _INT64)
    ctx.set(0, ctx.add("Gather", ctx.raw(0), index, axis=-1))


@lowers("COMPLEX_ABS")
def complex_abs(ctx: Context) -> None:
    """The root of the sum of their squares."""
    ctx.set(0, ctx.add("ReduceL2", ctx.raw(0), ctx.ints([-1]), keepdims=0))


def reshape_complex(ctx: Context, shape: list[int] | None) -> onnx_ir.Value:
    """Input 0, complex, in another shape; the dimension of its parts stays the last."""
    if shape is not None:
        return ctx.reshape(ctx.raw(0), [*shape, 2])
    return ctx.add("Reshape", ctx.raw(0), ctx.add("Concat", ctx.int64(1), ctx.ints([2]), axis=0))
