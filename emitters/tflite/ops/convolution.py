"""Conv: CONV_2D, DEPTHWISE_CONV_2D and CONV_3D, channels last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.dims import dims_of
from converter.ir.refused import Refused
from converter.ir.windows import Window, free_same, window_of
from emitters.lowering.channels_last import CHANNELS_LAST
from emitters.tflite import build
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Quant, Shape, Tensor
from emitters.tflite.ops.matrix_integers import accumulated_in, as_wide
from emitters.tflite.ops.reals import real, signed, stored
from emitters.tflite.ops.windows import count_along, lifted, lowered_back, padded
from emitters.tflite.registry import lowers


@dataclass(frozen=True)
class Parts:
    """What a convolution computes with.

    Attributes:
        x: [N, ..., C].
        weights: [O, C / groups, ...], as ONNX has them.
        bias: [O]; None for zeros.
        groups: How many.
        name: What the weights are called.
    """

    x: Tensor
    weights: Tensor
    bias: Tensor | None
    groups: int
    name: str


@dataclass(frozen=True)
class Result:
    """What a convolution is to give.

    Attributes:
        shape: [N, ..., O].
        dtype: Its type.
        quant: Its scales, where it is integers.
    """

    shape: Shape
    dtype: DataType
    quant: Quant | None

    @property
    def signed(self) -> Quant | None:
        """The scales of int8, which uint8 is computed in, or of int16; None where it is neither, or
        has a scale for each channel."""
        if self.quant is None or self.quant.axis is not None:
            return None
        if self.dtype == DataType.UINT8:
            return Quant(self.quant.scale, self.quant.zero_point - 128)
        return self.quant if self.dtype in (DataType.INT8, DataType.INT16) else None


def _is_padded_here(node: onnx_ir.Node) -> bool:
    return free_same(node, dims_of(node.inputs[0])[2:]) != "SAME_LOWER"


@lowers("Conv", domain=CHANNELS_LAST, integer=True, legal=_is_padded_here)
def conv(context: Context, node: onnx_ir.Node) -> None:
    """CONV_2D, of one spatial axis too; CONV_3D. In int8 where the kernel has what the node asks
    for, else in float32 between a DEQUANTIZE and a QUANTIZE."""
    parts = parts_of(context, node)
    window = window_of(node, parts.x.shape[1:-1], parts.weights.shape[2:])
    made = convolved(context, parts, window, result_of(context, node))
    context.give(node.outputs[0], made)


@lowers("ConvInteger", "QLinearConv")
def not_rewritten(context: Context, node: onnx_ir.Node) -> None:
    """What ``decompose_convolution`` left as it was."""
    raise Refused(
        f"a {node.op_type} with computed scales, zero points or weights, or with sums that "
        "are too large",
        "make them constants, or use a Conv between DequantizeLinear and QuantizeLinear",
    )


def result_of(context: Context, node: onnx_ir.Node) -> Result:
    """What a node's output is to be."""
    output = node.outputs[0]
    return Result(context.shape(output), context.dtype(output), output.meta.get(QUANT))


def parts_of(context: Context, node: onnx_ir.Node, bias: int = 2) -> Parts:
    """A node's operands.

    Args:
        context: Gives their tensors.
        node: Conv, ConvTranspose and the like.
        bias: The number of that input.

    Raises:
        Refused: LiteRT has no convolution of the input's type.
    """
    value = node.inputs[1]
    x, given = context.tensor(node.inputs[0]), context.optional(node, bias)
    if x.quant is None and x.dtype != DataType.FLOAT:
        raise Refused(
            f"a convolution of {x.dtype.name.lower()}: LiteRT's are of float32 or int8",
            "cast to float32 in the model",
        )
    groups = number(node, "group", 1)
    name = (value.name if value is not None else "") or f"{node.name}_weights"
    return Parts(x, context.tensor(value), given, groups, name)


def convolved(context: Context, parts: Parts, window: Window, result: Result) -> Tensor:
    """A convolution.

    Args:
        context: Where it goes.
        parts: What of.
        window: How; its padding is done here.
        result: What is asked for.
    """
    spatial = parts.x.rank - 2
    shape = _shape(parts, window, result.shape)
    quant = result.signed if spatial < 3 else None
    whole = in_integers(context, parts) if quant is not None else None
    if whole is None:
        parts, quant = in_reals(context, parts), None
    else:
        parts = whole
    if spatial == 1:
        made = _one_axis(context, parts, window, shape, quant)
    elif spatial == 2:
        made = _two_axes(context, parts, window, shape, quant)
    elif spatial == 3:
        made = _three_axes(context, parts, window, shape)
    else:
        raise Refused(f"a convolution of {spatial} spatial axes: TFLite has up to three")
    return stored(context, made, result.dtype, result.quant)


def _shape(parts: Parts, window: Window, named: Shape) -> Shape:
    """The result's shape, as it follows from the input's; else by the names that ONNX has."""
    x = parts.x.shape
    inner = [count_along(size, axis, window) for axis, size in enumerate(x[1:-1])]
    found = (x[0], *inner, parts.weights.shape[0])
    pairs = zip(found, named, strict=True)
    return tuple(dim if isinstance(dim, int) or dim in x else name for dim, name in pairs)


def _one_axis(
    context: Context, parts: Parts, window: Window, shape: Shape, quant: Quant | None
) -> Tensor:
    """CONV_2D of images one element high."""
    weights = with_row(context, parts.weights)
    flat = Parts(lifted(context, parts.x), weights, parts.bias, parts.groups, parts.name)
    made = _two_axes(context, flat, window.lifted(), (shape[0], 1, *shape[1:]), quant)
    return lowered_back(context, made)


def with_row(context: Context, weights: Tensor) -> Tensor:
    """[O, I, K] as [O, I, 1, K]."""
    shape = (*weights.shape[:2], 1, weights.shape[2])
    return build.reshape(context, weights, shape, weights.name)


# -- kernels -----------------------------------------------------------------------------


def _two_axes(
    context: Context, parts: Parts, window: Window, shape: Shape, quant: Quant | None
) -> Tensor:
    """CONV_2D with weights [O, H, W, I] of ONNX's [O, I, H, W], groups by their I; where a group
    is a channel, DEPTHWISE_CONV_2D with [1, H, W, C * m] of [C * m, 1, H, W]."""
    x, padding = padded(context, parts.x, window)
    options = options_of(window, padding)
    outputs = _known(parts.weights.shape[0])
    depthwise = parts.groups > 1 and parts.groups == x.shape[3] and parts.weights.shape[1] == 1
    if depthwise:
        options["depthMultiplier"] = outputs // parts.groups
    perm = (1, 2, 3, 0) if depthwise else (0, 2, 3, 1)
    weights = build.transpose(context, parts.weights, perm, parts.name)
    bias = parts.bias if parts.bias is not None else no_bias(context, x, weights, outputs)
    op = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    return context.emit(op, [x, weights, bias], shape, quant=quant, options=options)


def options_of(window: Window, padding: int) -> dict[str, int]:
    """A convolution's window over two or three axes, as the schema has it."""
    steps = zip("DHW"[-len(window.kernel) :], window.strides, window.dilations, strict=True)
    options = {"padding": padding, "fusedActivationFunction": 0}
    for axis, stride, dilation in steps:
        options |= {f"stride{axis}": stride, f"dilation{axis}Factor": dilation}
    return options


def _three_axes(context: Context, parts: Parts, window: Window, shape: Shape) -> Tensor:
    """CONV_3D with weights [D, H, W, I, O], of real numbers; groups one after another."""
    x, padding = padded(context, parts.x, window)
    options = options_of(window, padding)
    outputs = _known(parts.weights.shape[0])
    weights = build.transpose(context, parts.weights, (2, 3, 4, 1, 0), parts.name)
    bias = parts.bias if parts.bias is not None else no_bias(context, x, weights, outputs)
    if parts.groups == 1:
        return context.emit("CONV_3D", [x, weights, bias], shape, options=options)
    pieces = zip(
        split(context, x, parts.groups, 4),
        split(context, weights, parts.groups, 4),
        split(context, bias, parts.groups, 0),
        strict=True,
    )
    each = (*shape[:-1], outputs // parts.groups)
    made = [context.emit("CONV_3D", list(piece), each, options=options) for piece in pieces]
    return context.joined(made, len(shape) - 1, shape)


def split(context: Context, x: Tensor, count: int, axis: int) -> list[Tensor]:
    """A tensor in equal parts.

    Args:
        context: Where it goes.
        x: The tensor; a constant is split here.
        count: How many parts.
        axis: The one that is split; its size is known.
    """
    if x.data is not None:
        parts = np.split(x.data, count, axis)
        return [context.constant(part, x.name) for part in parts]
    shape = (*x.shape[:axis], _known(x.shape[axis]) // count, *x.shape[axis + 1 :])
    place = context.constant(np.asarray(axis, np.int32))
    outputs = [(shape, x.dtype, x.quant)] * count
    return context.emit_many("SPLIT", [place, x], outputs, options={"numSplits": count})


def no_bias(context: Context, x: Tensor, weights: Tensor, count: int) -> Tensor:
    """Zeros: the kernels want a bias. In integers it is int32 of scale x * weights.

    Args:
        context: Where it goes.
        x: What is convolved.
        weights: The kernel.
        count: How many output channels.
    """
    if x.quant is None or weights.quant is None:
        return context.constant(np.zeros(count, np.float32))
    scale = (x.quant.scale[0] * weights.quant.scale).astype(np.float32)
    axis = 0 if weights.quant.axis is not None else None
    quant = Quant(scale, np.zeros(scale.shape, np.int64), axis)
    return context.constant(np.zeros(count, accumulated_in(x)), f"{context.node}_bias", quant=quant)


def _known(dim: int | str) -> int:
    if isinstance(dim, str):
        raise Refused(f"weights of a free dimension ({dim})", "fix it (--input NAME:DIMS)")
    return dim


# -- integers ----------------------------------------------------------------------------


def in_integers(context: Context, parts: Parts) -> Parts | None:
    """The operands as the int8 kernels take them; None where they can't.

    They take int8 of one scale, constant weights with zero points of 0 and scales of output
    channels, and an int32 bias of scale x * weights. uint8 is moved by 128. Beside int16 of a zero
    point 0 the bias is int64.
    """
    x, weights, bias = parts.x, parts.weights, parts.bias
    eight = (DataType.INT8, DataType.UINT8)
    if x.quant is None or weights.quant is None or weights.data is None:
        return None
    if x.dtype not in (*eight, DataType.INT16) or weights.dtype not in eight:
        return None
    if x.quant.axis is not None or (x.dtype == DataType.INT16 and np.any(x.quant.zero_point)):
        return None
    moved = weights.quant.zero_point
    if weights.dtype == DataType.UINT8:
        moved = moved - 128
    if weights.quant.axis not in (None, 0) or np.any(moved != 0):
        return None
    x, weights = signed(context, x), signed(context, weights)
    if bias is not None:
        bias = _accumulated(context, bias, x, weights)
        if bias is None:
            return None
    return Parts(x, weights, bias, parts.groups, parts.name)


def _accumulated(context: Context, bias: Tensor, x: Tensor, weights: Tensor) -> Tensor | None:
    """A bias that an int32 accumulator starts with, scales written as the weights' are: XNNPACK
    fails on one scale there and many here. None where it isn't such a bias."""
    assert x.quant is not None and weights.quant is not None
    scale = (x.quant.scale[0] * weights.quant.scale).astype(np.float32)
    if x.dtype == DataType.INT16:
        return as_wide(context, bias, scale)
    if bias.quant is None or bias.dtype != DataType.INT32 or bias.data is None:
        return None
    if np.any(bias.quant.zero_point) or not np.allclose(bias.quant.scale, scale, rtol=1e-3, atol=0):
        return None
    axis = 0 if weights.quant.axis is not None else None
    quant = Quant(scale, np.zeros(scale.shape, np.int64), axis)
    return context.constant(bias.data, bias.name, quant=quant)


def in_reals(context: Context, parts: Parts) -> Parts:
    """The operands in float32."""
    bias = real(context, parts.bias) if parts.bias is not None else None
    return Parts(
        real(context, parts.x), real(context, parts.weights), bias, parts.groups, parts.name
    )
