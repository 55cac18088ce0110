"""Windows of convolutions and poolings: padding as TFLite has it, and spatial axes that its kernels
of two axes don't have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.ir.windows import Window, halves, same_total
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import Shape, Tensor

SAME, VALID = 0, 1
"""``Padding`` of the schema."""


def is_same(sizes: Sequence[object], window: Window) -> bool:
    """Whether TensorFlow's SAME pads as the window does."""
    if window.auto:
        return window.auto == "SAME_UPPER"
    for axis, size in enumerate(sizes):
        stride = window.strides[axis]
        if not isinstance(size, int) and stride != 1:
            return False
        total = same_total(size, stride, window.reach[axis])
        if (window.before[axis], window.ends[axis]) != halves(total, "SAME_UPPER"):
            return False
    return True


def padded(context: Context, x: Tensor, window: Window, value: float = 0.0) -> tuple[Tensor, int]:
    """A tensor as a window needs it.

    Args:
        context: Where it goes.
        x: [N, ..., C].
        window: Its numbers along each spatial axis.
        value: What is padded with.

    Returns:
        The tensor, and the schema's padding: SAME where TFLite's own is the same, else VALID.
    """
    if not window.is_padded:
        return x, VALID
    if is_same(x.shape[1:-1], window):
        return x, SAME
    return bordered(context, x, window, value), VALID


def bordered(context: Context, x: Tensor, window: Window, value: float = 0.0) -> Tensor:
    """A tensor with the window's padding around it.

    Args:
        context: Where it goes.
        x: [N, ..., C].
        window: Its numbers along each spatial axis.
        value: What is padded with.
    """
    return build.pad(context, x, [0, *window.before, 0], [0, *window.ends, 0], value)


def count_along(size: int | str, axis: int, window: Window) -> int | str:
    """How many windows there are along a spatial axis.

    Args:
        size: The axis without padding; a name where it is free.
        axis: Which of the spatial axes, from 0.
        window: Its numbers along each spatial axis.
    """
    stride, reach = window.strides[axis], window.reach[axis]
    if window.auto:
        return -(-size // stride) if isinstance(size, int) else f"{size}/{stride}"
    added = window.before[axis] + window.ends[axis]
    if isinstance(size, int):
        return (size + added - reach) // stride + 1
    if stride == 1 and added == reach - 1:
        return size
    return f"({size}{added - reach:+})/{stride}+1"


# -- one spatial axis as two -------------------------------------------------------------


def lifted(context: Context, x: Tensor) -> Tensor:
    """[N, L, C] as [N, 1, L, C]: a RESHAPE, which joins its neighbours; an EXPAND_DIMS where that
    would need sizes at run time."""
    return with_axis(context, x, 1)


def with_axis(context: Context, x: Tensor, axis: int) -> Tensor:
    """A tensor with one more axis, of one element.

    Args:
        context: Where it goes.
        x: The tensor.
        axis: The axis before which the new one goes.
    """
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    if _reshapes(x.shape):
        return build.reshape(context, x, shape)
    place = context.constant(np.asarray(axis, np.int32))
    return context.emit("EXPAND_DIMS", [x, place], shape, quant=x.quant)


def lowered_back(context: Context, x: Tensor) -> Tensor:
    """[N, 1, L, C] as [N, L, C]."""
    shape = (x.shape[0], *x.shape[2:])
    if _reshapes(shape):
        return build.reshape(context, x, shape)
    options = {"squeezeDims": np.asarray([1], np.int32)}
    return context.emit("SQUEEZE", [x], shape, quant=x.quant, options=options)


def _reshapes(shape: Shape) -> bool:
    return sum(isinstance(dim, str) for dim in shape) <= 1 and 0 not in shape
