"""Reductions that Keras hasn't in this form."""

from typing import Any

from keras import ops

Tensor = Any


def cumulative_sum(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Sums up to each element.

    Args:
        x: A tensor of any shape.
        axis: The one that is summed along.
        exclusive: Whether an element is left out of its own sum.
        reverse: Whether sums begin at the end.
    """
    x = ops.flip(x, axis=axis) if reverse else x
    total = ops.cumsum(x, axis=axis)
    total = total - x if exclusive else total
    return ops.flip(total, axis=axis) if reverse else total


def top_k(x: Tensor, count: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The first elements in order, and where they are; of equal ones the first is first.

    Args:
        x: A tensor of any shape.
        count: How many are given.
        axis: The one that they are sorted along.
        largest: Whether the largest come first; else the smallest.

    Returns:
        The elements, and their places along the axis in int64.
    """
    if largest:
        last = ops.shape(x)[axis] - 1
        order = ops.argsort(ops.flip(x, axis=axis), axis=axis)
        order = ops.flip(last - order, axis=axis)
    else:
        order = ops.argsort(x, axis=axis)
    order = order[(*(slice(None),) * axis, slice(0, count))]
    return ops.take_along_axis(x, order, axis=axis), ops.cast(order, "int64")
