"""Div; LiteRT has no kernel for int64."""

from __future__ import annotations

import onnx_ir

from emitters.tflite import build, kernels
from emitters.tflite.bounds import fits_int32
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.ops.arithmetic import select
from emitters.tflite.registry import lowers

_STEPS = 4
_SHORTER = 1 - 2**-20
"""A quotient in float32 is off by less than 2^-22 of itself: times this it is never too large."""


@lowers("Div")
def divide(context: Context, node: onnx_ir.Node) -> None:
    """DIV: integers towards zero, as in C; int64 in int32 where both are sizes, or else small; see
    :func:`divide_long` for others."""
    a, b = context.tensors(node)
    if a.dtype != DataType.INT64:
        made = kernels.binary(context, "DIV", a, b)
    elif fits_int32(*node.inputs):
        a, b = (build.cast(context, tensor, DataType.INT32) for tensor in (a, b))
        made = build.cast(context, build.binary(context, "DIV", a, b), DataType.INT64)
    else:
        made = divide_long(context, a, b)
    context.give(node.outputs[0], made)


def divide_long(context: Context, a: Tensor, b: Tensor) -> Tensor:
    """The quotient of any int64, towards zero: long division whose digits are quotients in float32.

    Each step takes off all but 2^-19 of what is left, and what is left stays of the sign of ``a``:
    after four, the quotient is at most one short.

    Args:
        context: Where it goes.
        a: int64.
        b: int64, of a shape that broadcasts with that of ``a``.
    """
    divisor = build.cast(context, b, DataType.FLOAT)
    factor = build.scalar(context, _SHORTER, divisor)
    rest, quotient = a, None
    for _ in range(_STEPS):
        share = build.binary(context, "DIV", build.cast(context, rest, DataType.FLOAT), divisor)
        digit = build.cast(context, build.binary(context, "MUL", share, factor), DataType.INT64)
        quotient = digit if quotient is None else build.binary(context, "ADD", quotient, digit)
        rest = build.binary(context, "SUB", rest, build.binary(context, "MUL", digit, b))
    assert quotient is not None
    short = build.binary(
        context, "LESS_EQUAL", _below_zero(context, rest), _below_zero(context, b), DataType.BOOL
    )
    first, second = (kernels.unary(context, "SIGN", tensor) for tensor in (rest, b))
    sign = build.binary(context, "MUL", first, second)
    more = build.binary(context, "ADD", quotient, sign)
    return select(context, short, more, quotient)


def _below_zero(context: Context, x: Tensor) -> Tensor:
    """-|x|, which int64 has for its least number too."""
    return build.binary(context, "MINIMUM", x, build.unary(context, "NEG", x))
