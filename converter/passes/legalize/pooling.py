"""Convolutions and poolings over windows that a target hasn't.

    padding    around the input, before: zeros, or what no maximum changes by
    means      of the padded input, by the share of each window that counts
    dilations  of means, a convolution's; of maxima, along one axis after the other, a Gather of
               what lies under each window, or a Slice for each place of the kernel, of free sizes

Source: the operator pages ``AveragePool``, ``Conv`` and ``MaxPool``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.edit import is_used
from converter.ir.windows import Window, pooling_window, window_of
from converter.passes.legalize.builder import Builder, Value, dims, rank
from converter.passes.legalize.unpooling import max_pool_with_places
from converter.passes.legalize.windows import bordered, kept, smallest


def conv(b: Builder, node: onnx_ir.Node) -> Value:
    """Without ``auto_pad``."""
    x, weight = node.inputs[:2]
    assert x is not None and weight is not None
    window = window_of(node, dims(x)[2:], dims(weight)[2:])
    others = {k: v.value for k, v in node.attributes.items() if k not in ("auto_pad", "pads")}
    return b.op("Conv", bordered(b, x, window), *node.inputs[1:], **others)


def max_pool(b: Builder, node: onnx_ir.Node) -> Value | tuple[Value, Value]:
    """Padding is the smallest number there is, and never wins."""
    if is_used(node, 1):
        return max_pool_with_places(b, node)
    x = node.inputs[0]
    assert x is not None and x.dtype is not None
    window = pooling_window(node)
    return _dense(b, "MaxPool", bordered(b, x, window, smallest(x.dtype)), window)


def average_pool(b: Builder, node: onnx_ir.Node) -> Value:
    """Zeros that count are put around first; of what doesn't count the share follows from ones."""
    x = node.inputs[0]
    assert x is not None
    window = pooling_window(node)
    if number(node, "count_include_pad", 0):
        x = bordered(b, x, replace(window, extra=()))
        window = replace(window.bare(), extra=window.extra)
        if any(window.extra):
            return mean_under(b, x, window, pads=[*window.before, *window.extra])
    if not window.is_padded:
        return _dense(b, "AveragePool", x, window)
    ones = b.filled(1, [1, *b.sizes(x)[2:], 1], x)  # no Transpose, channels last
    ones = b.transpose(ones, [0, rank(x) - 1, *range(1, rank(x) - 1)])
    mean, share = (mean_under(b, bordered(b, each, window), window) for each in (x, ones))
    return b.op("Div", mean, share)


def mean_under(b: Builder, x: Value, window: Window, **more: int | Sequence[int]) -> Value:
    """The mean under a window, without its padding.

    Args:
        b: Where the node goes.
        x: [N, C, ...].
        window: Its kernel, strides and dilations are used.
        **more: Further attributes of AveragePool: ``pads``, ``count_include_pad``.
    """
    own = {"kernel_shape": window.kernel, "strides": window.strides}
    return b.op("AveragePool", x, dilations=window.dilations, **own, **more)


def _dense(b: Builder, op_type: str, x: Value, window: Window) -> Value:
    """A pooling of what is padded already. A dilated mean is a convolution of each channel; else it
    is pooled axis by axis where it is dilated, or, where its size is free, by slices."""
    channels = dims(x)[1]
    if op_type == "AveragePool" and window.is_dilated and isinstance(channels, int):
        return _weighted(b, x, window, channels)
    whole, kernel, strides = x, list(window.kernel), list(window.strides)

    def fed(x: Value) -> Value:
        """``x`` in the integers of ``whole``, which a maximum leaves as they are."""
        return kept(b, whole, x) if op_type == "MaxPool" and x is not whole else x

    for axis, (length, dilation) in enumerate(zip(kernel[:], window.dilations, strict=True)):
        if dilation == 1 or length == 1:
            continue
        size, end, stride = dims(whole)[axis + 2], 1 - window.reach[axis], strides[axis]
        offsets = np.arange(length) * dilation
        kernel[axis] = strides[axis] = 1
        if not isinstance(size, int):
            parts = [_sliced(b, fed(x), axis + 2, int(i), int(i) + end, stride) for i in offsets]
            x = b.op("Max" if op_type == "MaxPool" else "Mean", *map(fed, parts))
            continue
        under = np.arange(0, size + end, stride)[:, None] + offsets
        x = b.op("Gather", fed(x), under.ravel(), axis=axis + 2)
        line = [length if other == axis else 1 for other in range(len(kernel))]
        x = b.op(op_type, fed(x), kernel_shape=line, strides=line)
    dense = set(kernel + strides) == {1}
    return x if dense else b.op(op_type, fed(x), kernel_shape=kernel, strides=strides)


def _weighted(b: Builder, x: Value, window: Window, channels: int) -> Value:
    """A mean as a convolution of each channel."""
    shape, share = [channels, 1, *window.kernel], 1 / float(np.prod(window.kernel))
    weights = b.filled(share, shape, x)
    own = {"strides": window.strides, "dilations": window.dilations}
    return b.op("Conv", x, weights, group=channels, **own)


def _sliced(b: Builder, x: Value, axis: int, begin: int, end: int, step: int) -> Value:
    """From ``begin`` on, up to ``end`` from an axis's end, or to it (0)."""
    limits = (begin, end or np.iinfo(np.int64).max, axis, step)
    return b.op("Slice", x, *(np.asarray([each]) for each in limits))


REWRITES = {"AveragePool": average_pool, "Conv": conv, "MaxPool": max_pool}
