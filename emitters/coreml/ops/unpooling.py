"""MaxPool's Indices, and MaxUnpool, which takes them."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir

from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.ops.windows import Window, bordered, under, window_of
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY, Array
from emitters.lowering.attributes import number
from emitters.lowering.refused import Refused

MOST = 64
"""Elements of a kernel above which there would be too many operations."""


def max_pool_with_indices(
    context: Context, node: onnx_ir.Node, x: Var, window: Window
) -> tuple[Var, Var]:
    """The maxima and their places, from one slice for each element of the kernel: MIL's max_pool
    doesn't say where it found the maximum. Of equal ones the first counts, as in ONNX Runtime.

    Args:
        context: Where it is computed.
        node: The MaxPool.
        x: Its input, of floats.
        window: Its window.
    """
    sizes = sizing.numbers(x.shape[1:])
    if sizes is None:
        raise Refused("Indices of a MaxPool over free dimensions", "fix them (--input NAME:DIMS)")
    if int(np.prod(window.kernel)) > MOST:
        raise Refused(
            f"Indices of a MaxPool with a kernel of {window.kernel}: up to {MOST} elements"
        )
    if number(node, "storage_order", 0) and len(x.shape) != 4:
        raise Refused("a MaxPool with storage_order 1 that isn't of two axes")
    whole = bordered(context, x, window, float(np.finfo(NUMPY[context.type_of(x)]).min))
    best = where = None
    for place in product(*map(range, window.kernel)):
        found = whole
        for axis, step in enumerate(place):
            found = under(context, found, window, axis, step)
        here = context.const(_numbers(node, sizes[1:], window, place, found.shape[2:]))
        if best is None or where is None:
            best, where = found, here
            continue
        better = context.op("greater", x=found, y=best)
        where = context.op("select", cond=better, a=here, b=where)
        best = context.op("maximum", x=best, y=found)
    assert best is not None and where is not None
    return best, context.op("add", x=where, y=_starts(context, x, sizes))


def _numbers(
    node: onnx_ir.Node,
    sizes: list[int],
    window: Window,
    place: tuple[int, ...],
    counts: tuple[int, ...],
) -> Array:
    """The numbers within a channel of the elements under one of the kernel: [1, 1, ...], int32."""
    order = list(range(len(sizes)))
    if number(node, "storage_order", 0):
        order.reverse()
    total, factor = np.zeros([1, 1, *(1 for _ in sizes)], np.int64), 1
    for axis in reversed(order):
        start = place[axis] * window.dilations[axis] - window.before[axis]
        along = np.arange(int(counts[axis])) * window.strides[axis] + start
        shape = [1] * (len(sizes) + 2)
        shape[axis + 2] = int(counts[axis])
        total = total + along.reshape(shape) * factor
        factor *= sizes[axis]
    return total.astype(np.int32)


def _starts(context: Context, x: Var, sizes: list[int]) -> Var:
    """The number of each channel's first element: int32 [N, C, 1...]."""
    each, ones = int(np.prod(sizes[1:])), [1] * (len(x.shape) - 2)
    channels = (np.arange(sizes[0]) * each).reshape(1, -1, *ones).astype(np.int32)
    images = sizing.counted(context, sizing.size(context, x, 0))
    rows = context.op("mul", x=images, y=np.int32(each * sizes[0]))
    rows = context.op("expand_dims", x=rows, axes=list(range(1, len(x.shape))))
    return context.op("add", x=rows, y=channels)


@lowers("MaxUnpool")
def max_unpool(context: Context, node: onnx_ir.Node) -> None:
    """scatter into zeros, of the whole tensor as one axis. Of values that fall on the same place
    the last counts; those of a pooling are the same."""
    x, indices = context.var(node.inputs[0]), context.var(node.inputs[1])
    kernel = list(node.attributes["kernel_shape"].as_ints())
    window = window_of(node, x.shape[2:], kernel)
    inner = _unpooled(x, window)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        wanted = [int(size) for size in context.needed(node, 2, "output_shape")]
        if wanted[2:] != inner:
            raise Refused(f"an output_shape of {wanted[2:]} where its attributes say {inner}")
    sizes = [*sizing.sizes(context, x)[:2], *inner]
    kind = context.type_of(x)
    zeros = sizing.filled(context, 0, [sizing.product(context, sizes)], kind)
    given = sizing.product(context, sizing.sizes(context, x))
    made = context.op(
        "scatter",
        data=zeros,
        indices=sizing.reshape(context, indices, [given]),
        updates=sizing.reshape(context, x, [given]),
        axis=0,
        mode="update",
    )
    context.give(node.outputs[0], sizing.reshape(context, made, sizes))


def _unpooled(x: Var, window: Window) -> list[int]:
    """(size - 1) * stride + kernel - pads, for each spatial axis."""
    found = []
    for axis, dim in enumerate(x.shape[2:]):
        if free(dim):
            raise Refused("a MaxUnpool over a free dimension", "fix it (--input NAME:DIMS)")
        pads = window.before[axis] + window.after[axis]
        found.append((int(dim) - 1) * window.strides[axis] + window.kernel[axis] - pads)
    return found
