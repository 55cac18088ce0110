"""MaxPool and AveragePool, channels last: MAX_POOL_2D and AVERAGE_POOL_2D."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.tflite import build
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import Tensor
from emitters.tflite.ops.convolution import SAME, VALID, Window, is_same, window_of
from emitters.tflite.registry import CHANNELS_LAST, Refused, lowers


@lowers("MaxPool", domain=CHANNELS_LAST, integer=True)
def max_pool(context: Context, node: onnx_ir.Node) -> None:
    """MAX_POOL_2D. Padding is the smallest number there is, and never wins."""
    x = _two_dimensional(context.tensor(node.inputs[0]))
    window = _window(node, x)
    if any(d != 1 for d in window.dilations):
        raise Refused("a MaxPool with dilations")
    x, padding = _bordered(context, x, window, _smallest(x))
    context.give(node.outputs[0], _pool(context, node, "MAX_POOL_2D", x, window, padding))


@lowers("AveragePool", domain=CHANNELS_LAST, integer=True)
def average_pool(context: Context, node: onnx_ir.Node) -> None:
    """AVERAGE_POOL_2D. With padding that counts it is of the padded input; with padding that
    doesn't, it is TensorFlow's SAME, or that of the input divided by that of ones."""
    x = _two_dimensional(context.tensor(node.inputs[0]))
    window = _window(node, x)
    counted = node.attributes.get("count_include_pad")
    if any(d != 1 for d in window.dilations):
        raise Refused("an AveragePool with dilations")
    if not any(window.before) and not any(window.after):
        made = _pool(context, node, "AVERAGE_POOL_2D", x, window, VALID)
    elif counted is not None and counted.as_int():
        whole = build.pad(context, x, [0, *window.before, 0], [0, *window.after, 0])
        made = _pool(context, node, "AVERAGE_POOL_2D", whole, window, VALID)
    elif is_same(x, window):
        made = _pool(context, node, "AVERAGE_POOL_2D", x, window, SAME)
    else:
        made = _uncounted(context, node, x, window)
    context.give(node.outputs[0], made)


def _uncounted(context: Context, node: onnx_ir.Node, x: Tensor, window: Window) -> Tensor:
    """The average over what lies inside: of zeros around, times window / elements inside."""
    if x.quant is not None:
        raise Refused("an AveragePool in integers whose padding doesn't count")
    sizes = [dim for dim in x.shape[1:3] if isinstance(dim, int)]
    if len(sizes) != 2:
        raise Refused("an AveragePool over free dimensions whose padding doesn't count")
    whole = build.pad(context, x, [0, *window.before, 0], [0, *window.after, 0])
    made = _pool(context, node, "AVERAGE_POOL_2D", whole, window, VALID)
    factors = np.ones([1, 1, 1, 1], np.float32)
    for axis, size in enumerate(sizes):
        inside = np.zeros(size + window.before[axis] + window.after[axis])
        inside[window.before[axis] : window.before[axis] + size] = 1
        count, k, s = made.shape[axis + 1], window.kernel[axis], window.strides[axis]
        assert isinstance(count, int)
        share = [k / max(inside[i * s : i * s + k].sum(), 1) for i in range(count)]
        shape = [1, 1, 1, 1]
        shape[axis + 1] = count
        factors = factors * np.asarray(share, np.float32).reshape(shape)
    return build.binary(context, "MUL", made, context.constant(factors))


def _two_dimensional(x: Tensor) -> Tensor:
    if x.rank != 4:
        raise Refused(f"a pooling of {x.rank - 2} spatial axes")
    return x


def _window(node: onnx_ir.Node, x: Tensor) -> Window:
    window = window_of(node, x, list(node.attributes["kernel_shape"].as_ints()))
    ceil = node.attributes.get("ceil_mode")
    if ceil is None or not ceil.as_int():
        return window
    raise Refused("a pooling with ceil_mode")


def _smallest(x: Tensor) -> float:
    if x.quant is not None:
        limits = np.iinfo(x.dtype.numpy())
        return (limits.min - int(x.quant.zero_point[0])) * float(x.quant.scale[0])
    return float(np.finfo(np.float32).min)


def _bordered(context: Context, x: Tensor, window: Window, value: float) -> tuple[Tensor, int]:
    if not any(window.before) and not any(window.after):
        return x, VALID
    if is_same(x, window):
        return x, SAME
    return build.pad(context, x, [0, *window.before, 0], [0, *window.after, 0], value), VALID


def _pool(
    context: Context, node: onnx_ir.Node, op: str, x: Tensor, window: Window, padding: int
) -> Tensor:
    return context.emit(
        op,
        [x],
        context.shape(node.outputs[0]),
        x.dtype,
        quant=node.outputs[0].meta.get(QUANT),
        options={
            "padding": padding,
            "filterHeight": window.kernel[0],
            "filterWidth": window.kernel[1],
            "strideH": window.strides[0],
            "strideW": window.strides[1],
            "fusedActivationFunction": 0,
        },
    )
