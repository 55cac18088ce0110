"""Activations: relu and its kin, softmax."""

from __future__ import annotations

import onnx_ir

from parsers.coreml.operation import Operation
from parsers.coreml.reader import Attribute, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.values import per_channel

_PLAIN = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "softsign": "Softsign",
}
_WITH_NUMBERS = {
    "elu": "Elu",
    "leaky_relu": "LeakyRelu",
    "sigmoid_hard": "HardSigmoid",
}
_GELU = {"EXACT": "none", "TANH_APPROXIMATION": "tanh"}


@reads(*_PLAIN)
def plain(reader: Reader, op: Operation) -> None:
    """ONNX's operator of the same meaning."""
    reader.give(op, reader.node(_PLAIN[op.type], [reader.value(op, "x")]))


@reads(*_WITH_NUMBERS)
def with_numbers(reader: Reader, op: Operation) -> None:
    """ONNX's operator of the same meaning, with alpha and beta as attributes."""
    numbers: dict[str, Attribute] = {
        name: float(reader.setting(op, name)) for name in ("alpha", "beta") if reader.has(op, name)
    }
    reader.give(op, reader.node(_WITH_NUMBERS[op.type], [reader.value(op, "x")], numbers))


@reads("relu6")
def relu6(reader: Reader, op: Operation) -> None:
    """Clip to 0 and 6."""
    x = reader.value(op, "x")
    reader.give(op, reader.node("Clip", [x, reader.number(0, x), reader.number(6, x)]))


@reads("clamped_relu")
def clamped_relu(reader: Reader, op: Operation) -> None:
    """min(beta, x) from zero on, min(beta, alpha x) below."""
    x = reader.value(op, "x")
    leaky = reader.node("LeakyRelu", [x], {"alpha": float(reader.setting(op, "alpha"))})
    reader.give(op, reader.node("Min", [leaky, _number(reader, op, "beta", x)]))


@reads("gelu")
def gelu(reader: Reader, op: Operation) -> None:
    """Gelu, exact or by tanh; x sigmoid(1.702 x) is a third approximation."""
    x, mode = reader.value(op, "x"), reader.setting(op, "mode", "EXACT")
    if mode in _GELU:
        reader.give(op, reader.node("Gelu", [x], {"approximate": _GELU[mode]}))
    elif mode == "SIGMOID_APPROXIMATION":
        scaled = reader.node("Mul", [x, reader.number(1.702, x)])
        reader.give(op, reader.node("Mul", [x, reader.node("Sigmoid", [scaled])]))
    else:
        raise Refusal(f"gelu of the mode {mode}")


@reads("linear_activation")
def linear_activation(reader: Reader, op: Operation) -> None:
    """alpha x + beta."""
    x = reader.value(op, "x")
    scaled = reader.node("Mul", [x, _number(reader, op, "alpha", x)])
    reader.give(op, reader.node("Add", [scaled, _number(reader, op, "beta", x)]))


@reads("scaled_tanh")
def scaled_tanh(reader: Reader, op: Operation) -> None:
    """alpha tanh(beta x)."""
    x = reader.value(op, "x")
    tanh = reader.node("Tanh", [reader.node("Mul", [x, _number(reader, op, "beta", x)])])
    reader.give(op, reader.node("Mul", [tanh, _number(reader, op, "alpha", x)]))


@reads("silu")
def silu(reader: Reader, op: Operation) -> None:
    """x sigmoid(x)."""
    x = reader.value(op, "x")
    reader.give(op, reader.node("Mul", [x, reader.node("Sigmoid", [x])]))


@reads("prelu")
def prelu(reader: Reader, op: Operation) -> None:
    """PRelu, with a slope for each channel."""
    x = reader.value(op, "x")
    reader.give(op, reader.node("PRelu", [x, per_channel(reader, op, "alpha", x)]))


@reads("softplus_parametric")
def softplus_parametric(reader: Reader, op: Operation) -> None:
    """alpha log(1 + exp(beta x)), with an alpha and a beta for each channel."""
    x = reader.value(op, "x")
    inner = reader.node("Mul", [x, per_channel(reader, op, "beta", x)])
    soft = reader.node("Softplus", [inner])
    reader.give(op, reader.node("Mul", [soft, per_channel(reader, op, "alpha", x)]))


@reads("thresholded_relu")
def thresholded_relu(reader: Reader, op: Operation) -> None:
    """x from alpha on, zero below; ONNX's ThresholdedRelu gives zero at alpha too."""
    x = reader.value(op, "x")
    alpha = _number(reader, op, "alpha", x)
    kept = reader.node("GreaterOrEqual", [x, alpha], dtype=onnx_ir.DataType.BOOL)
    reader.give(op, reader.node("Where", [kept, x, reader.number(0, x)], dtype=x.dtype))


@reads("softmax")
def softmax(reader: Reader, op: Operation) -> None:
    axis = int(reader.setting(op, "axis", -1))
    reader.give(op, reader.node("Softmax", [reader.value(op, "x")], {"axis": axis}))


def _number(reader: Reader, op: Operation, parameter: str, like: onnx_ir.Value) -> onnx_ir.Value:
    """A parameter in the operand's type; from iOS17 on it may have another."""
    return reader.number(reader.setting(op, parameter), like)
