"""Layers element by element: activations, unary functions, arithmetic, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir

from parsers.coreml.network.registry import Layer, layer
from parsers.coreml.network.tensors import Network
from parsers.coreml.network.weights import values
from parsers.coreml.reader import Array, DataType
from parsers.coreml.refusal import Refusal

BOOL = DataType.BOOL

_UNARY = {
    "ceil": "Ceil",
    "floor": "Floor",
    "sign": "Sign",
    "round": "Round",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "erf": "Erf",
    "copy": "Identity",
}
_BINARY = {
    "addBroadcastable": "add",
    "subtractBroadcastable": "sub",
    "multiplyBroadcastable": "mul",
    "divideBroadcastable": "real_div",
    "floorDivBroadcastable": "floor_div",
    "modBroadcastable": "mod",
    "powBroadcastable": "pow",
    "minBroadcastable": "minimum",
    "maxBroadcastable": "maximum",
}
_COMPARED = {
    "equal": "Equal",
    "notEqual": "Equal",
    "lessThan": "Less",
    "lessEqual": "LessOrEqual",
    "greaterThan": "Greater",
    "greaterEqual": "GreaterOrEqual",
}
_LOGICAL = {"logicalAnd": "And", "logicalOr": "Or", "logicalXor": "Xor"}
_ACTIVATIONS = {
    "linear": "linear_activation",
    "ReLU": "relu",
    "leakyReLU": "leaky_relu",
    "thresholdedReLU": "thresholded_relu",
    "tanh": "tanh",
    "scaledTanh": "scaled_tanh",
    "sigmoid": "sigmoid",
    "sigmoidHard": "sigmoid_hard",
    "ELU": "elu",
    "softsign": "softsign",
    "softplus": "softplus",
}
_GELU = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")
_UNARY_EPSILON = 1e-6


@layer(*_UNARY)
def unary(net: Network, at: Layer) -> onnx_ir.Value:
    """ONNX's operator of the same meaning."""
    return net.node(_UNARY[at.kind], at.inputs)


@layer("exp2")
def exp2(net: Network, at: Layer) -> onnx_ir.Value:
    """2 to the power of x."""
    return net.op("exp2", x=at.inputs[0])


@layer("gelu")
def gelu(net: Network, at: Layer) -> onnx_ir.Value:
    """Exact, or one of two approximations."""
    return net.op("gelu", x=at.inputs[0], mode=_GELU[at.parameters.mode])


@layer("clip")
def clip(net: Network, at: Layer) -> onnx_ir.Value:
    low, high = at.parameters.minVal, at.parameters.maxVal
    return net.op("clip", x=at.inputs[0], alpha=low, beta=high)


@layer("clampedReLU")
def clamped_relu(net: Network, at: Layer) -> onnx_ir.Value:
    """relu with a slope below zero, up to a number."""
    how = at.parameters
    return net.op("clamped_relu", x=at.inputs[0], alpha=how.alpha, beta=how.beta)


@layer("activation")
def activation(net: Network, at: Layer) -> onnx_ir.Value:
    """One of thirteen functions."""
    kind = at.parameters.WhichOneof("NonlinearityType") or "nothing"
    if kind not in (*_ACTIVATIONS, "PReLU", "parametricSoftplus"):
        raise Refusal(f"an activation of the kind {kind}")
    how: Any = getattr(at.parameters, kind)
    x = at.inputs[0]
    if kind == "PReLU":
        return net.node("PRelu", [x, net.channels(_vector(how.alpha))])
    if kind == "parametricSoftplus":
        inner = net.node("Mul", [x, net.channels(_vector(how.beta))])
        soft = net.node("Softplus", [inner])
        return net.node("Mul", [soft, net.channels(_vector(how.alpha))])
    numbers = {field.name: getattr(how, field.name) for field in how.DESCRIPTOR.fields}
    return net.op(_ACTIVATIONS[kind], x=x, **numbers)


def _vector(weights: Any) -> Array:
    """Weights whose number isn't given besides."""
    stored = len(weights.floatValue) or len(weights.float16Value) // 2
    return values(weights, [stored])


@layer("unary")
def function(net: Network, at: Layer) -> onnx_ir.Value:
    """A function of scale * x + shift; a scale and an epsilon of 0 are 1 and 1e-6."""
    how, x = at.parameters, at.inputs[0]
    if how.scale not in (0, 1):
        x = net.op("mul", x=x, y=how.scale)
    if how.shift:
        x = net.op("add", x=x, y=how.shift)
    kind = type(how).Operation.Name(how.type)
    epsilon = how.epsilon or _UNARY_EPSILON
    if kind in ("RSQRT", "INVERSE", "LOG"):
        return net.op(kind.lower(), x=x, epsilon=np.float32(epsilon))
    if kind == "POWER":
        return net.op("pow", x=x, y=how.alpha)
    if kind == "THRESHOLD":
        return net.op("threshold", x=x, alpha=how.alpha)
    return net.node({"SQRT": "Sqrt", "EXP": "Exp", "ABS": "Abs"}[kind], [x])


# -- two and more operands ---------------------------------------------------------------


@layer("add", "multiply")
def scalar_or_all(net: Network, at: Layer) -> onnx_ir.Value:
    """The sum or product of all operands; of one, with a number."""
    kind = {"add": "Add", "multiply": "Mul"}[at.kind]
    if len(at.inputs) == 1:
        return net.node(kind, [at.inputs[0], net.const(at.parameters.alpha)])
    return _folded(net, kind, at.inputs)


@layer("max", "min", "average")
def of_all(net: Network, at: Layer) -> onnx_ir.Value:
    """The largest, the smallest, or the mean of all operands."""
    if at.kind != "average":
        return net.node(at.kind.capitalize(), at.inputs)
    total = _folded(net, "Add", at.inputs)
    return net.node("Div", [total, net.const(len(at.inputs))])


def _folded(net: Network, kind: str, inputs: Sequence[onnx_ir.Value]) -> onnx_ir.Value:
    return reduce(lambda left, right: net.node(kind, [left, right]), inputs)


@layer(*_BINARY)
def binary(net: Network, at: Layer) -> onnx_ir.Value:
    """ML programs' operation of the same meaning; more operands than two one after the other."""
    left, *others = at.inputs
    for right in others:
        left = net.op(_BINARY[at.kind], x=left, y=right)
    return left


@layer(*_COMPARED)
def compared(net: Network, at: Layer) -> onnx_ir.Value:
    """1 where it is true, 0 where it isn't; one operand is compared with a number."""
    x = at.inputs[0]
    other = at.inputs[1] if len(at.inputs) > 1 else net.const(at.parameters.alpha)
    truth = net.node(_COMPARED[at.kind], [x, other], dtype=BOOL)
    if at.kind == "notEqual":
        truth = net.node("Not", [truth])
    return number(net, truth)


@layer(*_LOGICAL)
def logical(net: Network, at: Layer) -> onnx_ir.Value:
    """Of truths: what isn't 0 is true."""
    truths = [truth(net, value) for value in at.inputs]
    return number(net, net.node(_LOGICAL[at.kind], truths))


@layer("logicalNot")
def logical_not(net: Network, at: Layer) -> onnx_ir.Value:
    """1 where it is 0."""
    return number(net, net.node("Not", [truth(net, at.inputs[0])]))


@layer("whereBroadcastable")
def where(net: Network, at: Layer) -> onnx_ir.Value:
    """The second operand where the first is true, else the third."""
    condition, x, y = at.inputs
    return net.node("Where", [truth(net, condition), x, y], dtype=x.dtype)


def truth(net: Network, x: onnx_ir.Value) -> onnx_ir.Value:
    """What isn't 0 is true."""
    return net.node("Cast", [x], {"to": int(BOOL)}, BOOL)


def number(net: Network, condition: onnx_ir.Value) -> onnx_ir.Value:
    """1 for what is true."""
    return net.node("Cast", [condition], {"to": int(DataType.FLOAT)}, DataType.FLOAT)


# -- with weights ------------------------------------------------------------------------


@layer("scale")
def scale(net: Network, at: Layer) -> onnx_ir.Value:
    """x times a scale, plus a bias."""
    how = at.parameters
    scaled = net.node("Mul", [at.inputs[0], _spread(net, how.scale, how.shapeScale)])
    if not how.hasBias:
        return scaled
    return net.node("Add", [scaled, _spread(net, how.bias, how.shapeBias)])


@layer("bias")
def bias(net: Network, at: Layer) -> onnx_ir.Value:
    """x plus a bias."""
    how = at.parameters
    return net.node("Add", [at.inputs[0], _spread(net, how.bias, how.shape)])


def _spread(net: Network, weights: Any, shape: Sequence[int]) -> onnx_ir.Value:
    """Weights of the shape [1], [C], [1, H, W] or [C, H, W], to be broadcast to [..., C, H, W]."""
    sizes = [int(size) for size in shape]
    found = values(weights, sizes)
    return net.const(found if len(sizes) > 1 else found.reshape(-1, 1, 1))
