"""Windows that Keras hasn't in this form."""

from typing import Any

from keras import ops

Tensor = Any


def average_inside(
    x: Tensor,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
) -> Tensor:
    """The mean of each window, without what lies outside of the tensor.

    Args:
        x: [batch, space..., channels].
        kernel: The window's size along each axis of space.
        strides: Its step along each.
        pads: How many elements are added before and behind each axis of x.
    """
    inside = ops.pad(ops.ones_like(x[:1, ..., :1]), pads)
    total = ops.average_pool(ops.pad(x, pads), kernel, strides)
    return total / ops.average_pool(inside, kernel, strides)


def grouped_conv_transpose(
    x: Tensor, kernel: Tensor, groups: int, strides: int | tuple[int, ...] = 1
) -> Tensor:
    """A transposed convolution of channels in groups.

    Args:
        x: [batch, space..., channels].
        kernel: [window..., channels of a group's result, channels of x]; groups stand one behind
            another.
        groups: How many.
        strides: The window's step, along all axes of space or along each.
    """
    parts = zip(ops.split(x, groups, axis=-1), ops.split(kernel, groups, axis=-1), strict=True)
    made = [ops.conv_transpose(part, own, strides) for part, own in parts]
    return ops.concatenate(made, axis=-1)
