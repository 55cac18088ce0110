"""Conv: CONV_2D and DEPTHWISE_CONV_2D, channels last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir

from emitters.tflite import build
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import Array, DataType, Quant, Tensor
from emitters.tflite.registry import CHANNELS_LAST, Refused, lowers

SAME, VALID = 0, 1
"""``Padding`` of the schema."""


@dataclass(frozen=True)
class Window:
    """The window of a convolution or pooling over the spatial axes.

    Attributes:
        kernel, strides, dilations: A number for each spatial axis.
        before, after: Padding, for each spatial axis.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


@lowers("Conv", domain=CHANNELS_LAST, integer=True)
def conv(context: Context, node: onnx_ir.Node) -> None:
    """CONV_2D with weights [O, H, W, I] of ONNX's [O, I, H, W]; DEPTHWISE_CONV_2D with
    [1, H, W, C * m] of [C * m, 1, H, W]."""
    x = context.tensor(node.inputs[0])
    if x.rank != 4:
        raise Refused(f"a convolution of {x.rank - 2} spatial axes")
    weights = context.needed(node, 1, "weights")
    quant = node.inputs[1].meta.get(QUANT) if node.inputs[1] is not None else None
    groups = _int(node, "group", 1)
    window = window_of(node, x, weights.shape[2:])
    x, padding = padded(context, x, window)
    channels = x.shape[3]
    depthwise = groups > 1 and groups == channels and weights.shape[1] == 1
    if groups > 1 and not depthwise:
        raise Refused(f"a convolution in {groups} groups")
    bias = _bias(context, node, x, weights, quant)
    options = {
        "padding": padding,
        "strideH": window.strides[0],
        "strideW": window.strides[1],
        "dilationHFactor": window.dilations[0],
        "dilationWFactor": window.dilations[1],
        "fusedActivationFunction": 0,
    }
    name = node.inputs[1].name if node.inputs[1] is not None else ""
    output = node.outputs[0]
    shape = context.shape(output)
    if depthwise:
        w = weights.transpose(1, 2, 3, 0)
        axis = 3
        options["depthMultiplier"] = weights.shape[0] // groups
    else:
        w, axis = weights.transpose(0, 2, 3, 1), 0
    stored = context.constant(w, name or "", quant=along(quant, axis))
    made = context.emit(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
        [x, stored, bias],
        shape,
        quant=output.meta.get(QUANT),
        options=options,
    )
    context.give(output, made)


def along(quant: Quant | None, axis: int) -> Quant | None:
    """Scales of output channels, which lie along ``axis`` in TFLite's order."""
    return quant if quant is None or quant.axis is None else quant.moved(axis)


def _bias(
    context: Context, node: onnx_ir.Node, x: Tensor, weights: Array, quant: Quant | None
) -> Tensor:
    """The bias; TFLite's kernels want one. In integers it is int32 of scale x * weights."""
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        return context.tensor(node.inputs[2])
    if x.quant is None or quant is None:
        return context.constant(np.zeros(weights.shape[0], np.float32), f"{node.name}_bias")
    scale = (x.quant.scale[0] * quant.scale).astype(np.float32)
    zeros = np.zeros(weights.shape[0], np.int32)
    made = Quant(scale, np.zeros(scale.shape, np.int64), 0 if scale.size > 1 else None)
    return context.constant(zeros, f"{node.name}_bias", quant=made)


def window_of(node: onnx_ir.Node, x: Tensor, kernel: Sequence[int]) -> Window:
    """A node's window, with its padding in numbers.

    Args:
        node: With ``strides``, ``dilations``, ``pads``, ``auto_pad``.
        x: Its input, channels last.
        kernel: Its size, for each spatial axis.
    """
    spatial = len(kernel)
    strides = _ints(node, "strides", [1] * spatial)
    dilations = _ints(node, "dilations", [1] * spatial)
    pads = _ints(node, "pads", [0] * (2 * spatial))
    before, after = pads[:spatial], pads[spatial:]
    auto = node.attributes.get("auto_pad")
    mode = auto.as_string() if auto is not None else "NOTSET"
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, k, s, d in zip(x.shape[1:-1], kernel, strides, dilations, strict=True):
            if not isinstance(size, int):
                raise Refused(f"auto_pad {mode} of a free dimension ({size})")
            total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
            small = total // 2
            before.append(small if mode == "SAME_UPPER" else total - small)
            after.append(total - small if mode == "SAME_UPPER" else small)
    elif mode == "VALID":
        before, after = [0] * spatial, [0] * spatial
    return Window(tuple(kernel), tuple(strides), tuple(dilations), tuple(before), tuple(after))


def padded(context: Context, x: Tensor, window: Window, value: float = 0.0) -> tuple[Tensor, int]:
    """``x`` as the window needs it, and the schema's padding: SAME where that is the same."""
    if not any(window.before) and not any(window.after):
        return x, VALID
    if is_same(x, window):
        return x, SAME
    before, after = [0, *window.before, 0], [0, *window.after, 0]
    return build.pad(context, x, before, after, value), VALID


def is_same(x: Tensor, window: Window) -> bool:
    """Whether TensorFlow's SAME pads as the window does."""
    for axis, size in enumerate(x.shape[1:-1]):
        k, s, d = window.kernel[axis], window.strides[axis], window.dilations[axis]
        reach = (k - 1) * d + 1
        if isinstance(size, int):
            total = max((-(-size // s) - 1) * s + reach - size, 0)
        elif s == 1:
            total = reach - 1
        else:
            return False
        if (window.before[axis], window.after[axis]) != (total // 2, total - total // 2):
            return False
    return True


def _ints(node: onnx_ir.Node, name: str, default: list[int]) -> list[int]:
    attribute = node.attributes.get(name)
    return list(attribute.as_ints()) if attribute is not None else default


def _int(node: onnx_ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return attribute.as_int() if attribute is not None else default


__all__ = ["SAME", "VALID", "DataType", "Window", "padded", "window_of"]
