"""AveragePool, channels last: AVERAGE_POOL_2D."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from converter.ir.windows import Window
from emitters.tflite import build
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import Array, DataType, Quant, Tensor
from emitters.tflite.ops.convolution import Result, no_bias
from emitters.tflite.ops.pooling import (
    bare,
    give,
    over_space,
    pool_kernel,
    pool_window,
    pooled_shape,
)
from emitters.tflite.ops.reals import real, signed
from emitters.tflite.ops.windows import SAME, VALID, bordered, count_along, is_same
from emitters.tflite.registry import CHANNELS_LAST, lowers


@lowers("AveragePool", domain=CHANNELS_LAST, integer=True)
def average_pool(context: Context, node: onnx_ir.Node) -> None:
    """AVERAGE_POOL_2D. With padding that counts it is of the padded input; with padding that
    doesn't, it is TensorFlow's SAME, or that of zeros around divided by that of ones.

    LiteRT's kernel takes the input's scales for the output's, whatever those are. In integers it is
    used where they are the same; else it is a convolution of each channel with ones, or float32.
    """
    x, output = context.tensor(node.inputs[0]), node.outputs[0]
    window, counted = pool_window(node, x), bool(number(node, "count_include_pad", 0))
    quant = Result((), context.dtype(output), output.meta.get(QUANT))
    same = x.quant is not None and x.quant.same(quant.quant) and x.dtype == output.dtype
    direct = same and _is_whole(x, window, counted)
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


def _is_whole(x: Tensor, window: Window, counted: bool) -> bool:
    """Whether one AVERAGE_POOL_2D does it."""
    if any(d != 1 for d in window.dilations):
        return False
    return _counts_all(window, counted) or (not counted and is_same(x.shape[1:-1], window))


def _mean(context: Context, x: Tensor, window: Window, counted: bool) -> Tensor:
    dense = all(d == 1 for d in window.dilations)
    if not window.is_padded:
        return _plain_mean(context, x, window, VALID)
    if not counted and dense and is_same(x.shape[1:3], window):
        return _plain_mean(context, x, window, SAME)
    made = _plain_mean(context, bordered(context, x, window), window, VALID)
    if counted and not any(window.extra):
        return made
    return build.binary(context, "DIV", made, _shares(context, x, window, counted))


def _plain_mean(context: Context, x: Tensor, window: Window, padding: int) -> Tensor:
    """The mean over a window whose padding counts or is TensorFlow's."""
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
    options = {
        "padding": VALID,
        "strideH": window.strides[0],
        "strideW": window.strides[1],
        "depthMultiplier": 1,
        "dilationHFactor": window.dilations[0],
        "dilationWFactor": window.dilations[1],
        "fusedActivationFunction": 0,
    }
    inputs = [x, weights, no_bias(context, x, weights, channels)]
    whole = pooled_shape(x, bare(window))
    return context.emit("DEPTHWISE_CONV_2D", inputs, whole, options=options, quant=quant)


def _shares(context: Context, x: Tensor, window: Window, counted: bool) -> Tensor:
    """Which part of each window counts, [1, H', W', 1]: the mean of ones amid zeros."""
    if all(isinstance(size, int) for size in x.shape[1:3]):
        return context.constant(_known_shares(x, window, counted))
    ones = context.emit(
        "FILL",
        [context.sizes((1, *x.shape[1:3], 1)), context.constant(np.asarray(1, np.float32))],
        (1, *x.shape[1:3], 1),
        DataType.FLOAT,
    )
    if counted:
        after = (0, *window.after, 0)
        ones = build.pad(context, ones, (0, *window.before, 0), after, 1.0)
        behind = (0, *window.extra, 0)
        whole = build.pad(context, ones, (0, 0, 0, 0), behind)
    else:
        whole = bordered(context, ones, window)
    return _plain_mean(context, whole, window, VALID)


def _known_shares(x: Tensor, window: Window, counted: bool) -> Array:
    """The same where sizes are known: axis by axis."""
    shares = np.ones([1, 1, 1, 1])
    for axis, size in enumerate(x.shape[1:3]):
        assert isinstance(size, int)
        before, after = window.before[axis], window.after[axis]
        inside = np.zeros(size + before + window.ends[axis])
        inside[0 if counted else before : before + size + (after if counted else 0)] = 1
        count, k = count_along(size, axis, window), window.kernel[axis]
        assert isinstance(count, int)
        s, d = window.strides[axis], window.dilations[axis]
        along = [inside[i * s : i * s + (k - 1) * d + 1 : d].mean() for i in range(count)]
        shape = [1, 1, 1, 1]
        shape[axis + 1] = count
        shares = shares * np.asarray(along).reshape(shape)
    return shares.astype(np.float32)
