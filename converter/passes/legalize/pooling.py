"""Convolutions and poolings over windows that a target hasn't.

    padding    around the input, before: zeros, or what no maximum changes by
    means      of the padded input, by the share of each window that counts
    dilations  a Gather along each axis of what lies under each window, one after the other

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
from converter.passes.legalize.builder import Builder, DataType, Value, dims
from converter.passes.legalize.formulas import Numbers
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
    ones = b.filled(1, [1, 1, *b.sizes(x)[2:]], x)
    mean, share = (mean_under(b, bordered(b, each, window), window) for each in (x, ones))
    return b.op("Div", mean, share)


def mean_under(b: Builder, x: Value, window: Window, **more: Sequence[int]) -> Value:
    """The mean under a window of what is padded already."""
    own = {"kernel_shape": window.kernel, "strides": window.strides}
    return b.op("AveragePool", x, dilations=window.dilations, **own, **more)


def _dense(b: Builder, op_type: str, x: Value, window: Window) -> Value:
    """A pooling of what is padded already: axis by axis where it is dilated."""
    whole, kernel, strides = x, list(window.kernel), list(window.strides)

    def fed() -> Value:
        """``x`` in the integers of ``whole``, which a maximum leaves as they are."""
        return kept(b, whole, x) if op_type == "MaxPool" and x is not whole else x

    for axis, (length, dilation) in enumerate(zip(kernel[:], window.dilations, strict=True)):
        if dilation == 1 or length == 1:
            continue
        end = Numbers.of_size(b, b.size(whole, axis + 2), DataType.INT64) - (window.reach[axis] - 1)
        first = Numbers.counted(b, end.size(), strides[axis]).expanded([1])
        under = first + Numbers(b, np.arange(length) * dilation, DataType.INT64)
        x = b.op("Gather", fed(), under.flat(), axis=axis + 2)
        kernel[axis] = strides[axis] = 1
        line = [length if other == axis else 1 for other in range(len(kernel))]
        x = b.op(op_type, fed(), kernel_shape=line, strides=line)
    dense = set(kernel + strides) == {1}
    return x if dense else b.op(op_type, fed(), kernel_shape=kernel, strides=strides)


REWRITES = {"AveragePool": average_pool, "Conv": conv, "MaxPool": max_pool}
