"""AveragePool, channels last: AVERAGE_POOL_2D."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.dims import dims_of
from converter.ir.refused import Refused
from converter.ir.windows import Window
from emitters.lowering.channels_last import CHANNELS_LAST
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Quant, Tensor
from emitters.tflite.ops.convolution import Result, no_bias, options_of
from emitters.tflite.ops.pooling import (
    give,
    is_padded_here,
    over_space,
    pool_kernel,
    pool_window,
    pooled_shape,
)
from emitters.tflite.ops.reals import real, signed
from emitters.tflite.ops.windows import SAME, VALID, bordered, is_same
from emitters.tflite.registry import lowers


def _takes(node: onnx_ir.Node) -> bool:
    """Whether every element under the window counts, or TensorFlow's SAME does it."""
    sizes, counted = dims_of(node.inputs[0])[2:], bool(number(node, "count_include_pad", 0))
    window = pool_window(node, sizes)
    if window.auto and (counted or not is_padded_here(window)):
        return False
    return _counts_all(window, counted) or _is_whole(sizes, window, counted)


@lowers("AveragePool", domain=CHANNELS_LAST, integer=True, legal=_takes)
def average_pool(context: Context, node: onnx_ir.Node) -> None:
    """AVERAGE_POOL_2D. With padding that counts it is of the padded input; with padding that
    doesn't, it is TensorFlow's SAME.

    LiteRT's kernel takes the input's scales for the output's, whatever those are. In integers it is
    used where they are the same; else it is a convolution of each channel with ones, or float32.
    """
    x, output = context.tensor(node.inputs[0]), node.outputs[0]
    window, counted = pool_window(node, x.shape[1:-1]), bool(number(node, "count_include_pad", 0))
    quant = Result((), context.dtype(output), output.meta.get(QUANT))
    same = x.quant is not None and x.quant.same(quant.quant) and x.dtype == output.dtype
    direct = same and _is_whole(x.shape[1:-1], window, counted)
    convolves = quant.signed is not None and _counts_all(window, counted)

    def pool(context: Context, x: Tensor, window: Window) -> Tensor:
        if x.quant is not None and not direct:
            return _weighted_mean(context, bordered(context, x, window), window, quant.signed)
        return _mean(context, x, window, counted)

    if x.rank == 5 or not (direct or convolves):
        x = real(context, x)
    elif not direct:
        x = signed(context, x)
    if x.quant is None:
        _need_floats(x)
    give(context, output, over_space(context, x, window, pool))


# -- means -------------------------------------------------------------------------------


def _need_floats(x: Tensor) -> None:
    if x.dtype != DataType.FLOAT:
        raise Refused(f"LiteRT pools no {x.dtype.name.lower()} without scales")


def _counts_all(window: Window, counted: bool) -> bool:
    """Whether every element under the window counts, padding too."""
    return not window.is_padded or (counted and not any(window.extra))


def _is_whole(sizes: Sequence[object], window: Window, counted: bool) -> bool:
    """Whether one AVERAGE_POOL_2D does it."""
    if any(d != 1 for d in window.dilations):
        return False
    return _counts_all(window, counted) or (not counted and is_same(sizes, window))


def _mean(context: Context, x: Tensor, window: Window, counted: bool) -> Tensor:
    padding = SAME if window.is_padded and not counted else VALID
    x = x if padding == SAME else bordered(context, x, window)
    if all(d == 1 for d in window.dilations):
        return pool_kernel(context, "AVERAGE_POOL_2D", x, window, padding)
    return _weighted_mean(context, x, window, None)


def _weighted_mean(context: Context, x: Tensor, window: Window, quant: Quant | None) -> Tensor:
    """A convolution of each channel with 1 / size, of what is padded. Integers come out in scales
    of their own.

    In integers 1 / size is 127 of a scale of 1 / (127 * size): LiteRT's kernels round sums to a
    power of two of the output's step first, and small sums would be a step off.
    """
    channels, size = x.shape[3], int(np.prod(window.kernel))
    if not isinstance(channels, int):
        raise Refused(
            f"an average over a free number of channels ({channels})", "fix it (--input NAME:DIMS)"
        )
    shape = (1, *window.kernel, channels)
    if x.quant is None:
        weights = context.constant(np.full(shape, 1 / size, np.float32))
    else:
        one = Quant.of(1 / (127 * size), 0)
        weights = context.constant(np.full(shape, 127, np.int8), quant=one)
    options = options_of(window, VALID) | {"depthMultiplier": 1}
    inputs = [x, weights, no_bias(context, x, weights, channels)]
    whole = pooled_shape(x, window.bare())
    return context.emit("DEPTHWISE_CONV_2D", inputs, whole, options=options, quant=quant)
