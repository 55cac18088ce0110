"""Asinh and Acosh, by the operations that MIL has.

Up to where the logarithm is exact enough, by atanh, which keeps small numbers; above, without
squares of large ones, which overflow (in float16 at 256):

    asinh(x) = atanh(x / sqrt(1 + x^2))                       |x| < 1
             = sign(x) (log |x| + log(1 + sqrt(1 + 1/x^2)))   |x| >= 1
    acosh(x) = atanh(sqrt(x - 1) sqrt(x + 1) / x)             x < 2
             = log x + log(1 + sqrt(1 - 1/x^2))               x >= 2
"""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers


@lowers("Asinh")
def asinh(context: Context, node: onnx_ir.Node) -> None:
    """By atanh near zero, by logarithms elsewhere; NaN is in both."""
    x = context.var(node.inputs[0])
    one = context.number(1, x)
    size = context.op("abs", x=x)
    near = context.op("minimum", x=size, y=one)
    root = context.op("sqrt", x=_plus_one(context, context.op("mul", x=near, y=near)))
    small = context.op("atanh", x=context.op("real_div", x=near, y=root))
    far = context.op("maximum", x=size, y=one)
    large = _by_logarithms(context, far, context.op("add", x=one, y=_inverse_square(context, far)))
    made = context.op("select", cond=context.op("less", x=size, y=one), a=small, b=large)
    context.give(node.outputs[0], context.op("mul", x=made, y=context.op("sign", x=x)))


@lowers("Acosh")
def acosh(context: Context, node: onnx_ir.Node) -> None:
    """By atanh near one, by logarithms elsewhere; NaN below one, where the root has none."""
    x = context.var(node.inputs[0])
    one, two = context.number(1, x), context.number(2, x)
    near = context.op("minimum", x=x, y=two)
    below, above = context.op("sub", x=near, y=one), context.op("add", x=near, y=one)
    roots = [context.op("sqrt", x=part) for part in (below, above)]  # NaN below one, and -1
    root = context.op("mul", x=roots[0], y=roots[1])
    small = context.op("atanh", x=context.op("real_div", x=root, y=near))
    far = context.op("maximum", x=x, y=two)
    large = _by_logarithms(context, far, context.op("sub", x=one, y=_inverse_square(context, far)))
    made = context.op("select", cond=context.op("less", x=x, y=two), a=small, b=large)
    context.give(node.outputs[0], made)


def _by_logarithms(context: Context, x: Var, squared: Var) -> Var:
    """log x + log(1 + sqrt(squared))."""
    rest = _plus_one(context, context.op("sqrt", x=squared))
    return context.op("add", x=_log(context, x), y=_log(context, rest))


def _inverse_square(context: Context, x: Var) -> Var:
    inverse = context.op("real_div", x=context.number(1, x), y=x)
    return context.op("mul", x=inverse, y=inverse)


def _plus_one(context: Context, x: Var) -> Var:
    return context.op("add", x=x, y=context.number(1, x))


def _log(context: Context, x: Var) -> Var:
    return context.op("log", x=x, epsilon=context.number(0, x))
