"""Add, Div, Mod, Pow and the like of two numbers, Max, Sum and the like of several.

Integers are int32 whatever their width is: results of narrower types wrap around by lowerings.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.never_negative import never_negative
from emitters.coreml.context import Context, Var
from emitters.coreml.integers import is_integer, remainder, wrapped
from emitters.coreml.registry import lowers
from emitters.coreml.types import narrowed

_PLAIN = {"Add": "add", "Sub": "sub", "Mul": "mul"}
_SEVERAL = {"Max": "maximum", "Min": "minimum", "Sum": "add"}

_LARGE = 16384
"""Above it a number's inverse is subnormal in float16."""
_PART = 256.0


@lowers(*_PLAIN)
def plain(context: Context, node: onnx_ir.Node) -> None:
    """add, sub, mul; both broadcast alike."""
    x, y = (context.var(value) for value in node.inputs)
    x, y = _beside(context, x, y), _beside(context, y, x)
    made = context.op(_PLAIN[node.op_type], x=x, y=y)
    context.give(node.outputs[0], wrapped(context, made, context.dtype(node.outputs[0])))


def _beside(context: Context, x: Var, other: Var) -> Var:
    """``x`` with an axis at least where it is constant beside a ``linear``, and where it is one
    with as many as a constant beside it: coremltools' ``fuse_linear_bias`` looks at the last axis,
    and gives the result no more than the ``linear`` has."""
    if x.val is not None and not x.shape and _is_linear(other):
        return context.const(np.reshape(x.val, (1,)))
    missing = len(other.shape) - len(x.shape)
    if other.val is not None and missing > 0 and _is_linear(x):
        return context.op("expand_dims", x=x, axes=list(range(missing)))
    return x


def _is_linear(x: Var) -> bool:
    return x.op is not None and x.op.op_type == "linear"


@lowers("Div")
def div(context: Context, node: onnx_ir.Node) -> None:
    """real_div; of integers the quotient without its fraction, where ``floor_div`` rounds down."""
    x, y = (context.var(value) for value in node.inputs)
    dtype = context.dtype(node.outputs[0])
    if not is_integer(dtype):
        made = _quotient(context, x, y)
    elif all(never_negative(value) for value in node.inputs):
        made = context.op("floor_div", x=x, y=y)
    else:
        made = wrapped(context, truncated(context, x, y), dtype)
    context.give(node.outputs[0], made)


def _quotient(context: Context, x: Var, y: Var) -> Var:
    """real_div. coremltools multiplies by a constant's inverse, which in float16 has few bits where
    the constant is large; there it is multiplied by a part of it, and by a power of two."""
    if context.type_of(y) != "fp16" or y.val is None or not (abs(y.val) > _LARGE).any():
        return context.op("real_div", x=x, y=y)
    part = context.const((_PART / y.val.astype(np.float32)).astype(np.float16))
    made = context.op("mul", x=x, y=part)
    return context.op("mul", x=made, y=context.number(1 / _PART, made))


def truncated(context: Context, x: Var, y: Var) -> Var:
    """The quotient towards zero: one more than rounded down where it is negative and isn't whole.

    Args:
        context: Where it goes.
        x: int32.
        y: int32, of a shape that broadcasts with that of ``x``.
    """
    down = context.op("floor_div", x=x, y=y)
    broken = context.op("not_equal", x=context.op("mul", x=down, y=y), y=x)
    negative = context.op("less", x=down, y=context.const(0))
    more = context.op("logical_and", x=broken, y=negative)
    return context.op("add", x=down, y=context.cast(more, "int32"))


@lowers("Mod")
def mod(context: Context, node: onnx_ir.Node) -> None:
    """The remainder with the divisor's sign; with ``fmod`` the dividend's, of the sizes' one."""
    x, y = (context.var(value) for value in node.inputs)
    if all(never_negative(value) for value in node.inputs):
        made = context.op("mod", x=x, y=y)
    elif context.type_of(x) != "int32":
        rest = context.op("mod", x=context.op("abs", x=x), y=context.op("abs", x=y))
        made = context.op("mul", x=rest, y=context.op("sign", x=x))
    elif number(node, "fmod", 0):
        made = context.op("sub", x=x, y=context.op("mul", x=truncated(context, x, y), y=y))
    else:
        made = remainder(context, x, y)
    context.give(node.outputs[0], made)


@lowers("Pow")
def power(context: Context, node: onnx_ir.Node) -> None:
    """pow of one type: the base's, or float32 for an integer to the power of a fraction; square,
    which coremltools' passes look for in normalizations."""
    x, y = (context.var(value) for value in node.inputs)
    if _is_two(context, node):
        made = context.op("square", x=x)
    else:
        kind = context.type_of(x)
        inner = "fp32" if kind == "int32" and context.type_of(y) != "int32" else kind
        made = context.op("pow", x=context.cast(x, inner), y=context.cast(y, inner))
        made = context.cast(made, kind)
    context.give(node.outputs[0], wrapped(context, made, context.dtype(node.outputs[0])))


def _is_two(context: Context, node: onnx_ir.Node) -> bool:
    """Whether the exponent is the number 2, and doesn't broadcast the base."""
    exponent = context.array(node.inputs[1])
    if exponent is None or exponent.size != 1 or exponent.item() != 2:
        return False
    return exponent.ndim <= context.rank(node.inputs[0])


@lowers(*_SEVERAL)
def several(context: Context, node: onnx_ir.Node) -> None:
    """maximum, minimum, add, again and again."""
    context.give(node.outputs[0], _chained(context, _SEVERAL[node.op_type], node))


def _chained(context: Context, kind: str, node: onnx_ir.Node) -> Var:
    limit = kind != "add"
    operands = [_limit(context, value) if limit else context.var(value) for value in node.inputs]
    return reduce(lambda x, y: context.op(kind, x=x, y=y), operands)


def _limit(context: Context, value: onnx_ir.Value | None) -> Var:
    """An operand of maximum or minimum: of a constant too wide for int32, int32's end will do."""
    array = context.array(value)
    if array is None or array.dtype.kind not in "iu" or value is None:
        return context.var(value)
    return context.const(narrowed(array, saturate=True), like=value.name or "")
