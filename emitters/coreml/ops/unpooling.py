"""MaxPool's Indices, and MaxUnpool, which takes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx_ir

from emitters.coreml import sizing
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.windows import bordered, under
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import Size
from emitters.coreml.types import NUMPY
from emitters.lowering.attributes import number
from emitters.lowering.plans.windows import Window, unpooled, window_of
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
    if int(np.prod(window.kernel)) > MOST:
        raise Refused(
            f"Indices of a MaxPool with a kernel of {window.kernel}: up to {MOST} elements"
        )
    if number(node, "storage_order", 0) and len(x.shape) != 4:
        raise Refused("a MaxPool with storage_order 1 that isn't of two axes")
    if window.auto:
        raise Refused(
            "Indices of a MaxPool with auto_pad over free dimensions", "fix them (--input)"
        )
    factors = _factors(context, sizing.sizes(context, x), number(node, "storage_order", 0) == 1)
    whole = bordered(context, x, window, float(np.finfo(NUMPY[context.type_of(x)]).min))
    best = where = starts = None
    for place in product(*map(range, window.kernel)):
        found = whole
        for axis, step in enumerate(place):
            found = under(context, found, window, axis, step)
        here = _offset(context, window, place, factors[2:])
        if best is None:
            best, starts = found, _starts(context, found, factors, window)
            # as large as the result: select takes its shape from what it selects among
            where = context.op("mul", x=starts, y=np.int32(0))
            where = context.op("add", x=where, y=here)
            continue
        better = context.op("greater", x=found, y=best)
        where = context.op("select", cond=better, a=here, b=where)
        best = context.op("maximum", x=best, y=found)
    return best, context.op("add", x=where, y=starts)


def _factors(context: Context, sizes: list[Size], columns_first: bool) -> list[Size]:
    """By how much the number of an element grows along each axis."""
    order = list(range(len(sizes)))
    if columns_first:
        order[2:] = order[:1:-1]
    factors: list[Size] = [1] * len(sizes)
    for after, axis in zip(order[:0:-1], order[-2::-1], strict=True):
        factors[axis] = sizing.compute(context, "mul", factors[after], sizes[after])
    return factors


def _whole(size: Size) -> Any:
    return np.int32(size) if isinstance(size, int) else size


def _offset(
    context: Context, window: Window, place: tuple[int, ...], factors: Sequence[Size]
) -> Any:
    """How far behind a window's start an element under it is numbered."""
    total: Size = 0
    for step, dilation, factor in zip(place, window.dilations, factors, strict=True):
        more = sizing.compute(context, "mul", factor, step * dilation)
        total = sizing.compute(context, "add", more, total)
    return _whole(total)


def _starts(context: Context, pooled: Var, factors: Sequence[Size], window: Window) -> Var:
    """The number of each window's start: int32, as large as ``pooled``."""
    total = None
    for axis, factor in enumerate(factors):
        steps = sizing.counted(context, sizing.size(context, pooled, axis))
        if axis >= 2:
            steps = context.op("mul", x=steps, y=np.int32(window.strides[axis - 2]))
            steps = context.op("sub", x=steps, y=np.int32(window.before[axis - 2]))
        steps = context.op("mul", x=steps, y=_whole(factor))
        others = [other for other in range(len(pooled.shape)) if other != axis]
        steps = context.op("expand_dims", x=steps, axes=others)
        total = steps if total is None else context.op("add", x=total, y=steps)
    return total


@lowers("MaxUnpool")
def max_unpool(context: Context, node: onnx_ir.Node) -> None:
    """scatter into zeros, of the whole tensor as one axis. Of values that fall on the same place
    the last counts; those of a pooling are the same."""
    x, indices = context.var(node.inputs[0]), context.var(node.inputs[1])
    kernel = list(node.attributes["kernel_shape"].as_ints())
    window = window_of(node, x.shape[2:], kernel)
    inner = unpooled(window, x.shape[2:])
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
