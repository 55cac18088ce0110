"""MaxPool's Indices, which targets' poolings don't give, and MaxUnpool, which takes them."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from converter.ir.windows import Window, pooling_window, unpooled
from converter.passes.legalize.builder import Builder, DataType, Value, dims, rank
from converter.passes.legalize.formulas import Numbers
from converter.passes.legalize.windows import bordered, smallest

MOST = 64
"""Elements of a kernel above which there would be too many nodes."""


def max_pool_with_places(b: Builder, node: onnx_ir.Node) -> tuple[Value, Value]:
    """The maxima and their places, from one Slice for each element of the kernel. Of equal ones
    the first counts, as in ONNX Runtime."""
    x = node.inputs[0]
    assert x is not None and x.dtype is not None
    window = pooling_window(node)
    if int(np.prod(window.kernel)) > MOST:
        raise Refused(
            f"Indices of a MaxPool with a kernel of {window.kernel}: up to {MOST} elements "
            "are possible"
        )
    if window.auto:
        raise Refused(
            "Indices of a MaxPool with auto_pad over free dimensions", "fix them (--input)"
        )
    order = list(range(2, rank(x)))
    factors = _factors(b, x, order[::-1] if number(node, "storage_order", 0) else order)
    whole = bordered(b, x, window, smallest(x.dtype))
    best = places = starts = None
    for place in product(*map(range, window.kernel)):
        found = _under(b, whole, window, place)
        offset = Numbers(b, 0, DataType.INT64)
        for step, dilation, factor in zip(place, window.dilations, factors[2:], strict=True):
            offset = offset + factor * (step * dilation)
        if best is None or starts is None:
            best, starts = found, _starts(b, found, window, factors)
            places = starts.value
            continue
        better = b.op("Greater", found, best)
        places = b.op("Where", better, (starts + offset).content, places)
        best = b.op("Max", best, found)
    assert best is not None and places is not None
    return best, places


def _factors(b: Builder, x: Value, order: list[int]) -> list[Numbers]:
    """By how much the number of an element grows along each axis: int64.

    Args:
        b: Where it is computed.
        x: What is pooled.
        order: The spatial axes, that along which elements lie side by side last.
    """
    axes = [0, 1, *order]
    behind = {axis: [b.size(x, a) for a in axes[place + 1 :]] for place, axis in enumerate(axes)}
    return [Numbers.of_size(b, b.product(behind[a]), DataType.INT64) for a in sorted(axes)]


def _under(b: Builder, x: Value, window: Window, place: tuple[int, ...]) -> Value:
    """What lies under one element of the kernel, for every window: [N, C, ...]."""
    begin = [step * dilation for step, dilation in zip(place, window.dilations, strict=True)]
    end = [start - reach + 1 for start, reach in zip(begin, window.reach, strict=True)]
    limits = [stop if stop else np.iinfo(np.int64).max for stop in end]
    axes = list(range(2, rank(x)))
    return b.op("Slice", x, *(np.asarray(part) for part in (begin, limits, axes, window.strides)))


def _starts(b: Builder, pooled: Value, window: Window, factors: list[Numbers]) -> Numbers:
    """The number of the element under the first of the kernel, for every window: int64."""
    total = Numbers(b, 0, DataType.INT64)
    for axis, factor in enumerate(factors):
        steps = Numbers.counted(b, b.size(pooled, axis))
        if axis >= 2:
            steps = steps * window.strides[axis - 2] - window.before[axis - 2]
        others = [other for other in range(len(factors)) if other != axis]
        total = total + (steps * factor).expanded(others)
    return total


def max_unpool(b: Builder, node: onnx_ir.Node) -> Value:
    """A scatter into zeros, of the whole tensor as one axis. Where windows overlap, ONNX takes one
    of the values that fall on the same place; those of a pooling are the same."""
    x, places = node.inputs[:2]
    assert x is not None and places is not None
    window = pooling_window(node)
    inner = unpooled(window, dims(x)[2:])
    asked = b.given(2, "output_shape")
    if asked is not None and [int(size) for size in asked[2:]] != inner:
        raise Refused(f"an output_shape of {asked[2:]} where its attributes say {inner}")
    sizes = [*b.sizes(x)[:2], *inner]
    zeros = b.op("Expand", b.number(0, x), b.vector([b.product(sizes)]))
    given = b.product(b.sizes(x))
    where, values = b.reshape(places, [given, 1]), b.reshape(x, [given])
    overlap = any(s < k for s, k in zip(window.strides, window.kernel, strict=True))
    made = b.op("ScatterND", zeros, where, values, reduction="none" if overlap else "add")
    return b.reshape(made, sizes)


REWRITES = {"MaxUnpool": max_unpool}
