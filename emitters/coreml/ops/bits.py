"""BitShift, BitwiseAnd, BitwiseOr, BitwiseXor and BitwiseNot: MIL has arithmetic only.

A shift is a product or quotient by a power of two. The others are made bit by bit along an axis of
bits: what 2 leaves of ``floor_div(x, 2^k)``, of negative numbers, too, whose highest bit counts as
minus its power (two's complement). Numbers of more than 31 bits, which int32 doesn't hold, aren't
met.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.attributes import text
from converter.ir.refused import Refused
from emitters.coreml import limits
from emitters.coreml.context import Context, Var
from emitters.coreml.integers import is_unsigned, remainder, width, wrapped
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import reshape, sizes
from emitters.coreml.types import DataType

_MOST = 31
"""Bits of int32 but its sign."""

_LOGICAL = {
    "BitwiseAnd": "logical_and",
    "BitwiseOr": "logical_or",
    "BitwiseXor": "logical_xor",
}


@lowers("BitwiseNot")
def bitwise_not(context: Context, node: onnx_ir.Node) -> None:
    """-1 - x; for unsigned integers, the largest less x."""
    x, dtype = context.var(node.inputs[0]), context.dtype(node.inputs[0])
    if is_unsigned(dtype) and width(dtype) > _MOST:
        raise Refused(limits.UNSIGNED, "cast to a signed type in the model")
    largest = (1 << width(dtype)) - 1 if is_unsigned(dtype) else -1
    context.give(node.outputs[0], context.op("sub", x=context.const(largest), y=x))


@lowers("BitShift")
def bit_shift(context: Context, node: onnx_ir.Node) -> None:
    """mul or floor_div by a power of two that is looked up; nothing is left of a shift by as many
    bits as there are."""
    x, by = (context.var(value) for value in node.inputs)
    dtype = context.dtype(node.outputs[0])
    most = min(width(dtype), _MOST)
    powers = context.const(np.asarray([1 << bit for bit in range(most)], np.int32))
    places = context.op("minimum", x=by, y=context.const(most - 1))
    factor = context.op("gather", x=powers, indices=places, axis=0)
    kind = "mul" if text(node, "direction", "") == "LEFT" else "floor_div"
    made = wrapped(context, context.op(kind, x=x, y=factor), dtype)
    some = context.cast(context.op("less", x=by, y=context.const(most)), "int32")
    context.give(node.outputs[0], context.op("mul", x=made, y=some))


@lowers(*_LOGICAL)
def bitwise(context: Context, node: onnx_ir.Node) -> None:
    """The bits of both along a new last axis, put together and summed with their weights."""
    operands = [context.var(value) for value in node.inputs]
    shape = None
    if max(len(x.shape) for x in operands) == limits.MAX_RANK:
        operands = _broadcast(context, operands)
        shape = sizes(context, operands[0])
        operands = [context.op("reshape", x=x, shape=[-1]) for x in operands]
    dtype = context.dtype(node.outputs[0])
    x, y = (_bits(context, x, dtype) for x in operands)
    both = context.cast(context.op(_LOGICAL[node.op_type], x=x, y=y), "int32")
    weighted = context.op("mul", x=both, y=context.const(_weights(dtype)))
    made = context.op("reduce_sum", x=weighted, axes=[-1])
    context.give(node.outputs[0], made if shape is None else reshape(context, made, shape))


def _broadcast(context: Context, operands: Sequence[Var]) -> list[Var]:
    """Two operands in the shape that both have together."""
    zero = context.const(0)
    nothing = [context.op("mul", x=x, y=zero) for x in operands]
    return [
        context.op("add", x=x, y=other) for x, other in zip(operands, nothing[::-1], strict=True)
    ]


def _weights(dtype: DataType) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """What each bit counts, the sign last."""
    count = min(width(dtype) - (not is_unsigned(dtype)), _MOST)
    sign = [] if is_unsigned(dtype) else [-(1 << count)]
    return np.asarray([1 << bit for bit in range(count)] + sign, np.int32)


def _bits(context: Context, x: Var, dtype: DataType) -> Var:
    """The bits of integers along a new last axis, as truth values."""
    wide = context.op("expand_dims", x=x, axes=[len(x.shape)])
    weights = _weights(dtype)
    powers = context.const(weights[weights > 0])
    odd = remainder(context, context.op("floor_div", x=wide, y=powers), context.const(2))
    bits = context.op("not_equal", x=odd, y=context.const(0))
    if is_unsigned(dtype):
        return bits
    sign = context.op("less", x=wide, y=context.const(0))
    parts = [context.cast(part, "int32") for part in (bits, sign)]
    joined = context.op("concat", values=parts, axis=len(x.shape))
    return context.op("not_equal", x=joined, y=context.const(0))
