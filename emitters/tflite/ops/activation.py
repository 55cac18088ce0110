"""Relu, Clip, Sigmoid, Softmax and other activations."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import floating, number, text
from emitters.tflite import build
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Quant, Tensor
from emitters.tflite.ops.reals import real
from emitters.tflite.registry import lowers

FIXED_SCALES = {"Sigmoid": (1 / 256, -128), "Softmax": (1 / 256, -128), "Tanh": (1 / 128, 0)}
"""The scale and zero point of what a kernel in int8 writes ("8-bit quantization specification")."""


@lowers("Relu", integer=True)
def relu(context: Context, node: onnx_ir.Node) -> None:
    """RELU; of integers that stand for themselves MAXIMUM, since the kernel scales them."""
    x = context.tensor(node.inputs[0])
    quant = node.outputs[0].meta.get(QUANT)
    if x.quant is None and x.dtype.numpy().kind in "iu":
        context.give(
            node.outputs[0], build.binary(context, "MAXIMUM", x, build.scalar(context, 0, x))
        )
        return
    if x.quant is not None and _covers(x, 0.0, np.inf):
        context.give(node.outputs[0], x)
        return
    context.give(node.outputs[0], context.emit("RELU", [x], x.shape, quant=quant))


@lowers("Clip", integer=True)
def clip(context: Context, node: onnx_ir.Node) -> None:
    """RELU, RELU6, RELU_N1_TO_1 where the limits are theirs, else MAXIMUM and MINIMUM.

    Integers whose range ends within the limits are clipped already by being integers.
    """
    x = context.tensor(node.inputs[0])
    low, high = _limit(context, node, 1, -np.inf), _limit(context, node, 2, np.inf)
    if x.quant is not None and _covers(x, low, high):
        made = x
    elif (low, high) in _NAMED and x.dtype == onnx_ir.DataType.FLOAT:
        made = context.emit(_NAMED[low, high], [x], x.shape)
    elif x.quant is not None:
        made = _clipped(context, x, low, high)
    else:
        made = x
        kind = x.dtype.numpy()
        whole = np.iinfo(kind) if np.dtype(kind).kind in "iu" else None
        if low > (-np.inf if whole is None else whole.min):
            made = build.binary(context, "MAXIMUM", made, build.scalar(context, low, x))
        if high < (np.inf if whole is None else whole.max):
            made = build.binary(context, "MINIMUM", made, build.scalar(context, high, x))
    context.give(node.outputs[0], made)


def _clipped(context: Context, x: Tensor, low: float, high: float) -> Tensor:
    """Integers between two others, which MAXIMUM and MINIMUM compare as they are."""
    assert x.quant is not None
    limits, made = np.iinfo(x.dtype.numpy()), x
    for op, limit in (("MAXIMUM", low), ("MINIMUM", high)):
        if not np.isfinite(limit):
            continue
        whole = round(limit / float(x.quant.scale[0])) + int(x.quant.zero_point[0])
        if limits.min < whole < limits.max:
            bound = context.constant(np.asarray(whole, x.dtype.numpy()), quant=x.quant)
            made = context.emit(op, [made, bound], x.shape, quant=x.quant)
    return made


_NAMED = {(0.0, np.inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}


def _limit(context: Context, node: onnx_ir.Node, index: int, default: float) -> float:
    if len(node.inputs) <= index or node.inputs[index] is None:
        return default
    limit: float = context.needed(node, index, "limits").item()
    return limit


def _covers(x: Tensor, low: float, high: float) -> bool:
    """Whether no integer of ``x`` stands for a number outside the limits, but for rounding."""
    assert x.quant is not None
    limits = np.iinfo(x.dtype.numpy())
    scale, zero = float(x.quant.scale[0]), int(x.quant.zero_point[0])
    smallest, largest = (limits.min - zero) * scale, (limits.max - zero) * scale
    return smallest >= low - scale / 2 and largest <= high + scale / 2


@lowers("Sigmoid", integer=True)
def sigmoid(context: Context, node: onnx_ir.Node) -> None:
    x, quant = _in_fixed_scale(context, node, context.tensor(node.inputs[0]))
    context.give(node.outputs[0], context.emit("LOGISTIC", [x], x.shape, quant=quant))


def _in_fixed_scale(context: Context, node: onnx_ir.Node, x: Tensor) -> tuple[Tensor, Quant | None]:
    """The operand of a kernel in int8 that writes one scale only, and that; where the output has
    another, the operand in float32."""
    quant: Quant | None = node.outputs[0].meta.get(QUANT)
    wanted = Quant.of(*FIXED_SCALES[node.op_type])
    if x.dtype == DataType.INT16:
        wanted = Quant.of(1 / 32768, 0)
    if quant is None or (x.dtype in (DataType.INT8, DataType.INT16) and wanted.same(quant)):
        return x, quant
    return real(context, x), None


@lowers("Softmax", integer=True)
def softmax(context: Context, node: onnx_ir.Node) -> None:
    """SOFTMAX, which is along the last axis; another is brought there and back."""
    x, quant = _in_fixed_scale(context, node, context.tensor(node.inputs[0]))
    moved, back = last_axis(context, node, x, -1)
    made = context.emit("SOFTMAX", [moved], moved.shape, quant=quant, options={"beta": 1.0})
    context.give(node.outputs[0], build.transpose(context, made, back))


@lowers("LogSoftmax")
def log_softmax(context: Context, node: onnx_ir.Node) -> None:
    """LOG_SOFTMAX, along the last axis."""
    x = context.tensor(node.inputs[0])
    moved, back = last_axis(context, node, x, -1)
    made = context.emit("LOG_SOFTMAX", [moved], moved.shape)
    context.give(node.outputs[0], build.transpose(context, made, back))


def last_axis(
    context: Context, node: onnx_ir.Node, x: Tensor, default: int
) -> tuple[Tensor, list[int]]:
    """A tensor with the node's axis last.

    Args:
        context: Where it goes.
        node: The node, with the attribute ``axis``.
        x: The tensor.
        default: The axis where the node names none.

    Returns:
        The tensor, and the order of axes that puts it back.
    """
    place = number(node, "axis", default) % x.rank
    order = [axis for axis in range(x.rank) if axis != place] + [place]
    return build.transpose(context, x, order), [order.index(axis) for axis in range(x.rank)]


@lowers("Tanh", integer=True)
def tanh(context: Context, node: onnx_ir.Node) -> None:
    x, quant = _in_fixed_scale(context, node, context.tensor(node.inputs[0]))
    context.give(node.outputs[0], context.emit("TANH", [x], x.shape, quant=quant))


@lowers("LeakyRelu", integer=True)
def leaky_relu(context: Context, node: onnx_ir.Node) -> None:
    x = context.tensor(node.inputs[0])
    quant = node.outputs[0].meta.get(QUANT)
    options = {"alpha": floating(node, "alpha", 0.01)}
    made = context.emit("LEAKY_RELU", [x], x.shape, quant=quant, options=options)
    context.give(node.outputs[0], made)


@lowers("PRelu")
def prelu(context: Context, node: onnx_ir.Node) -> None:
    """max(x, 0) + slope * min(x, 0): PRELU itself wants a slope for each channel, channels last."""
    x, slope = context.tensors(node)
    if slope.shape and len(slope.shape) == x.rank - 1 and slope.shape[:-1] == (1,) * (x.rank - 2):
        context.give(node.outputs[0], context.emit("PRELU", [x, slope], x.shape))
        return
    zero = build.scalar(context, 0.0, x)
    high = build.binary(context, "MAXIMUM", x, zero)
    low = build.binary(context, "MUL", slope, build.binary(context, "MINIMUM", x, zero))
    context.give(node.outputs[0], build.binary(context, "ADD", high, low))


@lowers("Elu", legal=lambda node: floating(node, "alpha", 1.0) == 1.0)
def elu(context: Context, node: onnx_ir.Node) -> None:
    """ELU, whose alpha is 1."""
    x = context.tensor(node.inputs[0])
    context.give(node.outputs[0], build.unary(context, "ELU", x))


@lowers("HardSwish", integer=True)
def hard_swish(context: Context, node: onnx_ir.Node) -> None:
    x = context.tensor(node.inputs[0])
    quant = node.outputs[0].meta.get(QUANT)
    context.give(node.outputs[0], context.emit("HARD_SWISH", [x], x.shape, quant=quant))


@lowers("Softplus")
def softplus(context: Context, node: onnx_ir.Node) -> None:
    """log(1 + exp(x)); see :func:`softplus_of`."""
    context.give(node.outputs[0], softplus_of(context, context.tensor(node.inputs[0])))


def softplus_of(context: Context, x: Tensor) -> Tensor:
    """max(x, 0) + log1p(exp(-|x|)): nothing overflows, and what is small stays exact.

    log1p(u) = 2 artanh(s) = 2 (s + s^3/3 + s^5/5 + ...) with s = u / (2 + u), at most 1/3 here:
    seven terms are float32's accuracy. A logarithm of 1 + u would lose a small u.
    """
    size = build.unary(context, "ABS", x)
    small = build.unary(context, "EXP", build.unary(context, "NEG", size))
    s = build.binary(context, "DIV", small, _plus(context, small, 2.0))
    square = build.binary(context, "MUL", s, s)
    series = _plus(context, _times(context, square, 2 / 13), 2 / 11)
    for power in (9, 7, 5, 3, 1):
        series = _plus(context, build.binary(context, "MUL", series, square), 2 / power)
    log = build.binary(context, "MUL", series, s)
    high = build.binary(context, "MAXIMUM", x, build.scalar(context, 0.0, x))
    return build.binary(context, "ADD", high, log)


@lowers("Mish")
def mish(context: Context, node: onnx_ir.Node) -> None:
    """x * n / (n + 2) with n = exp(x) (exp(x) + 2), which is x * tanh(log(1 + exp(x))) and loses
    nothing for negative x; above 20 the fraction is 1 in float32, and exp must not overflow."""
    x = context.tensor(node.inputs[0])
    capped = build.binary(context, "MINIMUM", x, build.scalar(context, 20.0, x))
    power = build.unary(context, "EXP", capped)
    n = build.binary(context, "MUL", power, _plus(context, power, 2.0))
    share = build.binary(context, "DIV", n, _plus(context, n, 2.0))
    context.give(node.outputs[0], build.binary(context, "MUL", x, share))


@lowers("Gelu")
def gelu(context: Context, node: onnx_ir.Node) -> None:
    """GELU, which has both of ONNX's forms."""
    x = context.tensor(node.inputs[0])
    tanh = text(node, "approximate", "none") == "tanh"
    made = context.emit("GELU", [x], x.shape, options={"approximate": tanh})
    context.give(node.outputs[0], made)


def _times(context: Context, x: Tensor, number: float) -> Tensor:
    return build.binary(context, "MUL", x, build.scalar(context, number, x))


def _plus(context: Context, x: Tensor, number: float) -> Tensor:
    return build.binary(context, "ADD", x, build.scalar(context, number, x))
