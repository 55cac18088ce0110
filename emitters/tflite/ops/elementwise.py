"""Abs, Exp, Sqrt, Erf and other functions of one number."""

from __future__ import annotations

import onnx_ir

from emitters.tflite import build, kernels
from emitters.tflite.context import Context
from emitters.tflite.graph import Tensor
from emitters.tflite.registry import lowers

_DIRECT = {
    "Abs": "ABS",
    "Ceil": "CEIL",
    "Cos": "COS",
    "Exp": "EXP",
    "Floor": "FLOOR",
    "Log": "LOG",
    "Neg": "NEG",
    "Round": "ROUND",
    "Sign": "SIGN",
    "Sin": "SIN",
    "Sqrt": "SQRT",
}


@lowers(*_DIRECT)
def direct(context: Context, node: onnx_ir.Node) -> None:
    """One operator of TFLite's. ROUND is to even in both."""
    x = context.tensor(node.inputs[0])
    context.give(node.outputs[0], kernels.unary(context, _DIRECT[node.op_type], x))


@lowers("Reciprocal")
def reciprocal(context: Context, node: onnx_ir.Node) -> None:
    """1 / x."""
    x = context.tensor(node.inputs[0])
    one = build.scalar(context, 1.0, x)
    context.give(node.outputs[0], build.binary(context, "DIV", one, x))


def _times(context: Context, x: Tensor, number: float) -> Tensor:
    return build.binary(context, "MUL", x, build.scalar(context, number, x))


def _plus(context: Context, x: Tensor, number: float) -> Tensor:
    return build.binary(context, "ADD", x, build.scalar(context, number, x))


@lowers("Atan", "Asin", "Acos")
def inverse_trigonometric(context: Context, node: onnx_ir.Node) -> None:
    """ATAN2: atan(x) = atan2(x, 1), asin(x) = atan2(x, sqrt(1 - x^2)), acos(x) the other way."""
    x = context.tensor(node.inputs[0])
    if node.op_type == "Atan":
        ones = _plus(context, _times(context, x, 0.0), 1.0)
        made = context.emit("ATAN2", [x, ones], x.shape)
    else:
        one = build.scalar(context, 1.0, x)
        up, down = build.binary(context, "ADD", one, x), build.binary(context, "SUB", one, x)
        root = build.unary(context, "SQRT", build.binary(context, "MUL", up, down))
        pair = [x, root] if node.op_type == "Asin" else [root, x]
        made = context.emit("ATAN2", pair, x.shape)
    context.give(node.outputs[0], made)


@lowers("Erf")
def erf(context: Context, node: onnx_ir.Node) -> None:
    """By a rational approximation; see :func:`erf_of`."""
    context.give(node.outputs[0], erf_of(context, context.tensor(node.inputs[0])))


def erf_of(context: Context, x: Tensor) -> Tensor:
    """erf(x) to 1.5e-7: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.

    erf(x) = sign(x) * (1 - (a1 t + a2 t^2 + ... + a5 t^5) exp(-x^2)),  t = 1 / (1 + p |x|)
    """
    p = 0.3275911
    factors = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    size = build.unary(context, "ABS", x)
    one = build.scalar(context, 1.0, x)
    t = build.binary(context, "DIV", one, _plus(context, _times(context, size, p), 1.0))
    total = _times(context, t, factors[0])
    for factor in factors[1:]:
        total = build.binary(context, "MUL", _plus(context, total, factor), t)
    decay = build.unary(
        context, "EXP", build.unary(context, "NEG", build.unary(context, "SQUARE", x))
    )
    rest = build.binary(context, "SUB", one, build.binary(context, "MUL", total, decay))
    return build.binary(context, "MUL", rest, build.unary(context, "SIGN", x))


@lowers("IsNaN")
def is_nan(context: Context, node: onnx_ir.Node) -> None:
    """NaN is what isn't equal to itself."""
    x = context.tensor(node.inputs[0])
    context.give(node.outputs[0], kernels.compare(context, "NOT_EQUAL", x, x))
