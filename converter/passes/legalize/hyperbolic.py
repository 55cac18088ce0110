"""Asinh and Acosh, by logarithms and atanh.

Up to where the logarithm is exact enough, by atanh, which keeps small numbers; above, without
squares of large ones, which overflow (in float16 at 256):

    asinh(x) = atanh(x / sqrt(1 + x^2))                       |x| < 1
             = sign(x) (log |x| + log(1 + sqrt(1 + 1/x^2)))   |x| >= 1
    acosh(x) = atanh(sqrt(x - 1) sqrt(x + 1) / x)             x < 2
             = log x + log(1 + sqrt(1 - 1/x^2))               x >= 2
"""

from __future__ import annotations

import onnx_ir

from converter.passes.legalize.builder import Builder, Value


def asinh(b: Builder, node: onnx_ir.Node) -> Value:
    """By atanh near zero, by logarithms elsewhere; NaN is in both."""
    x = node.inputs[0]
    assert x is not None
    one, size = b.number(1, x), b.op("Abs", x)
    near, far = b.op("Min", size, one), b.op("Max", size, one)
    root = b.op("Sqrt", b.op("Add", b.op("Mul", near, near), one))
    small = b.op("Atanh", b.op("Div", near, root))
    large = _by_logarithms(b, far, b.op("Add", _inverse_square(b, far), one))
    made = b.op("Where", b.op("Less", size, one), small, large)
    return b.op("Mul", made, b.op("Sign", x))


def acosh(b: Builder, node: onnx_ir.Node) -> Value:
    """By atanh near one, by logarithms elsewhere; NaN below one, where the root has none."""
    x = node.inputs[0]
    assert x is not None
    one, two = b.number(1, x), b.number(2, x)
    near, far = b.op("Min", x, two), b.op("Max", x, two)
    roots = [b.op("Sqrt", b.op(op, near, one)) for op in ("Sub", "Add")]
    small = b.op("Atanh", b.op("Div", b.op("Mul", *roots), near))
    large = _by_logarithms(b, far, b.op("Sub", one, _inverse_square(b, far)))
    return b.op("Where", b.op("Less", x, two), small, large)


def _by_logarithms(b: Builder, x: Value, squared: Value) -> Value:
    """log x + log(1 + sqrt(squared))."""
    rest = b.op("Add", b.op("Sqrt", squared), b.number(1, x))
    return b.op("Add", b.op("Log", x), b.op("Log", rest))


def _inverse_square(b: Builder, x: Value) -> Value:
    inverse = b.op("Div", b.number(1, x), x)
    return b.op("Mul", inverse, inverse)


REWRITES = {"Acosh": acosh, "Asinh": asinh}
