"""Windows of convolutions and poolings: padding that is put around, and what lies under them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from converter.ir.windows import Window, same_at_run_time
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.sizing import Size


def settled(context: Context, x: Var, window: Window, value: float = 0.0) -> tuple[Var, Window]:
    """``x`` and its window without ``auto``: padding that sizes at run time decide is put around
    ``x``, which is of floats, as ``value``."""
    if not window.auto:
        return x, window
    compute = partial(sizing.compute, context)
    pads: list[Size] = [0] * 4
    for axis, (stride, reach) in enumerate(zip(window.strides, window.reach, strict=True)):
        size = sizing.size(context, x, axis + 2)
        pads += same_at_run_time(compute, size, stride, reach, window.auto)
    return padded(context, x, pads, value), window.bare()


def padded(context: Context, x: Var, pads: Sequence[Size], value: float) -> Var:
    """``x``, of floats, with ``value`` around it.

    Args:
        context: Where it is computed.
        x: The variable.
        pads: Before and after, axis by axis.
        value: In the type of ``x``.
    """
    if all(not free(n) and n == 0 for n in pads):
        return x
    return context.op(
        "pad",
        x=x,
        pad=sizing.vector(context, pads),
        mode="constant",
        constant_val=context.number(value, x),
    )


def bordered(context: Context, x: Var, window: Window, value: float) -> Var:
    """``x`` [N, C, ...] with the window's padding around it."""
    x, window = settled(context, x, window, value)
    return padded(context, x, [0, 0, 0, 0, *window.pad], value)


def under(context: Context, x: Var, window: Window, axis: int, place: int) -> Var:
    """What lies under one place of the kernel along a spatial axis, for each window.

    Args:
        context: Where it is computed.
        x: [N, C, ...], padded.
        window: Its padding isn't looked at.
        axis: Which spatial axis.
        place: Which element of the kernel.
    """
    rank = len(x.shape)
    begin, end, stride = [0] * rank, [0] * rank, [1] * rank
    begin[axis + 2] = place * window.dilations[axis]
    stride[axis + 2] = window.strides[axis]
    behind = window.reach[axis] - 1 - begin[axis + 2]
    end[axis + 2] = -behind
    masks = [not (a == axis + 2 and behind) for a in range(rank)]
    return context.op(
        "slice_by_index",
        x=x,
        begin=np.asarray(begin, np.int32),
        end=np.asarray(end, np.int32),
        stride=np.asarray(stride, np.int32),
        begin_mask=[a != axis + 2 for a in range(rank)],
        end_mask=masks,
    )
