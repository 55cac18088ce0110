"""Activations, casts, Dropout, IsInf and Mean as sums, products, choices and comparisons.

    Atanh            log((1 + x) / (1 - x)) / 2
    CastLike         Cast to the type that the other operand has
    Celu             alpha elu(x / alpha)
    Cosh, Sinh       (exp(x) + exp(-x)) / 2, (exp(x) - exp(-x)) / 2
    Dropout          x, and a mask that keeps everything
    Elu              max(x, 0) + alpha elu(min(x, 0)), whose alpha is 1
    HardSigmoid      max(0, min(1, alpha x + beta))
    HardSwish        x times that of x / 6 + 1 / 2
    IsInf            beyond the largest number
    Mean             the sum by the number of operands
    Selu             gamma elu(x), whose alpha is its own
    Shrink           x + bias below -lambd, x - bias above lambd, 0 between
    Softsign         x / (1 + |x|)
    Tan              sin(x) / cos(x)
    ThresholdedRelu  x above alpha, else 0

Source: the operator pages of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import ml_dtypes
import numpy as np
import onnx_ir

from converter.ir.attributes import floating, number
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Builder, DataType, Value

Made = Value | tuple[Value, ...]

_FLOATS = (DataType.FLOAT16, DataType.FLOAT, DataType.DOUBLE)


def _atanh(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    up, down = (b.op(op, b.number(1, x), x) for op in ("Add", "Sub"))
    return b.op("Mul", b.op("Log", b.op("Div", up, down)), b.number(0.5, x))


def _cast_like(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    like = node.inputs[1]
    if like is None or like.dtype is None:
        raise Refused("a CastLike to a type that isn't known")
    told = {name: item.value for name, item in node.attributes.items()}
    return b.op("Cast", x, to=int(like.dtype), **told)


def _celu(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    alpha = floating(node, "alpha", 1.0)
    if alpha <= 0:
        raise Refused(f"a Celu whose alpha is {alpha}")
    if alpha == 1.0:
        return b.op("Elu", x)
    factor = b.number(alpha, x)
    return b.op("Mul", b.op("Elu", b.op("Div", x, factor)), factor)


def _hyperbolic(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    op, down = "Sub" if node.op_type == "Sinh" else "Add", b.op("Exp", b.op("Neg", x))
    return b.op("Mul", b.op(op, b.op("Exp", x), down), b.number(0.5, x))


def _dropout(b: Builder, node: onnx_ir.Node, x: Value) -> tuple[Value, ...]:
    trains = b.given(2, "training modes")
    ratio = b.given(1, "ratios") if trains is not None and trains.item() else None
    if trains is not None and trains.item() and (ratio is None or ratio.item()):
        raise Refused("a Dropout in training mode: it drops random values")
    same = b.op("Identity", x)
    if len(node.outputs) == 1:
        return (same,)
    return same, b.op("Expand", np.asarray(True), b.op("Shape", x))


def _elu(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    low = b.op("Elu", b.op("Min", x, b.number(0, x)))
    scaled = b.op("Mul", low, b.number(floating(node, "alpha", 1.0), x))
    return b.op("Add", b.op("Relu", x), scaled)


def _hard_sigmoid(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    scaled = b.op("Mul", x, b.number(floating(node, "alpha", 0.2), x))
    line = b.op("Add", scaled, b.number(floating(node, "beta", 0.5), x))
    return b.op("Max", b.op("Min", line, b.number(1, x)), b.number(0, x))


def _hard_swish(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    return b.op("Mul", x, b.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def _is_infinite(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    """On the sides that are asked for; doubles as float32 has them."""
    up, down = (number(node, f"detect_{side}", 1) for side in ("positive", "negative"))
    kind = DataType.FLOAT if x.dtype in (None, DataType.DOUBLE) else x.dtype
    limit = float(ml_dtypes.finfo(kind.numpy()).max)  # type: ignore[no-untyped-call]
    if up and down:
        return b.op("Greater", b.op("Abs", x), b.number(limit, x))
    beyond = (
        b.op("Less", x, b.number(-limit, x)) if down else b.op("Greater", x, b.number(limit, x))
    )
    return beyond if up or down else b.op("And", beyond, np.asarray(False))


def _mean(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    return b.op("Mul", b.op("Sum", *node.inputs), b.number(1 / len(node.inputs), x))


def _selu(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    made = b.op("Elu", x, alpha=floating(node, "alpha", 1.67326319217681884765625))
    return b.op("Mul", made, b.number(floating(node, "gamma", 1.05070102214813232421875), x))


def _shrink(b: Builder, node: onnx_ir.Node, given: Value) -> Value:
    """Of integers, in float32."""
    x = given if given.dtype in _FLOATS else b.cast(given, DataType.FLOAT)
    limit, bias = floating(node, "lambd", 0.5), b.number(floating(node, "bias", 0.0), x)
    below, above = b.op("Less", x, b.number(-limit, x)), b.op("Greater", x, b.number(limit, x))
    low = b.op("Where", below, b.op("Add", x, bias), b.number(0, x))
    made = b.op("Where", above, b.op("Sub", x, bias), low)
    return b.op("CastLike", made, given) if x is not given else made


def _softsign(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    return b.op("Div", x, b.op("Add", b.op("Abs", x), b.number(1, x)))


def _tan(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    return b.op("Div", b.op("Sin", x), b.op("Cos", x))


def _thresholded_relu(b: Builder, node: onnx_ir.Node, x: Value) -> Value:
    above = b.op("Greater", x, b.number(floating(node, "alpha", 1.0), x))
    return b.op("Where", above, x, b.number(0, x))


_FORMULAS: Mapping[str, Callable[[Builder, onnx_ir.Node, Value], Made]] = {
    "Atanh": _atanh,
    "CastLike": _cast_like,
    "Celu": _celu,
    "Cosh": _hyperbolic,
    "Dropout": _dropout,
    "Elu": _elu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "IsInf": _is_infinite,
    "Mean": _mean,
    "Selu": _selu,
    "Shrink": _shrink,
    "Sinh": _hyperbolic,
    "Softsign": _softsign,
    "Tan": _tan,
    "ThresholdedRelu": _thresholded_relu,
}


def elementwise(b: Builder, node: onnx_ir.Node) -> Made:
    x = node.inputs[0]
    assert x is not None
    return _FORMULAS[node.op_type](b, node, x)


REWRITES = dict.fromkeys(_FORMULAS, elementwise)
