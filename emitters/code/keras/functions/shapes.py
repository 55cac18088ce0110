"""Rearrangements that Keras hasn't in this form."""

from typing import Any

from keras import ops

Tensor = Any


def stretch(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """By numpy's rule to a shape that may have 1 where x has more."""
    if x.dtype == "bool":
        return ops.logical_or(x, ops.zeros(shape, dtype="bool"))
    return x + ops.zeros(shape, dtype=x.dtype)


def triu(x: Tensor, k: int) -> Tensor:
    """What is on a diagonal and above it."""
    rows = ops.expand_dims(ops.arange(ops.shape(x)[-2]), 1)
    kept = ops.greater_equal(ops.arange(ops.shape(x)[-1]) - rows, k)
    return ops.where(kept, x, ops.zeros_like(x))


def tril(x: Tensor, k: int) -> Tensor:
    """What is on a diagonal and below it."""
    rows = ops.expand_dims(ops.arange(ops.shape(x)[-2]), 1)
    kept = ops.less_equal(ops.arange(ops.shape(x)[-1]) - rows, k)
    return ops.where(kept, x, ops.zeros_like(x))


def depth_to_space(x: Tensor, block: int, mode: str = "DCR") -> Tensor:
    """Channels as blocks of places.

    Args:
        x: [batch, height, width, channels].
        block: The blocks' height and width.
        mode: DCR where channels are [row, column, depth]; CRD where they are [depth, row, column].

    Returns:
        [batch, height * block, width * block, depth].
    """
    h, w, depth = ops.shape(x)[1], ops.shape(x)[2], x.shape[-1] // block**2
    if mode == "DCR":
        x = ops.reshape(x, (-1, h, w, block, block, depth))
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
    else:
        x = ops.reshape(x, (-1, h, w, depth, block, block))
        x = ops.transpose(x, (0, 1, 4, 2, 5, 3))
    return ops.reshape(x, (-1, h * block, w * block, depth))


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Blocks of places as channels [row, column, depth]."""
    h, w, depth = ops.shape(x)[1] // block, ops.shape(x)[2] // block, x.shape[-1]
    x = ops.reshape(x, (-1, h, block, w, block, depth))
    x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
    return ops.reshape(x, (-1, h, w, block * block * depth))


def pad_apart(x: Tensor, pads: tuple[tuple[int, int], ...]) -> Tensor:
    """Zeros around, and behind the last axis one more, which is cut off: TensorFlow crashes where
    its optimizer joins a padding to a convolution whose input that isn't.

    Args:
        x: A tensor of any shape.
        pads: How many elements are added before and behind each axis.
    """
    *others, (before, behind) = pads
    return ops.pad(x, (*others, (before, behind + 1)))[..., :-1]


def pad_with(x: Tensor, pads: tuple[tuple[int, int], ...], value: Tensor) -> Tensor:
    """Borders of a number that is computed.

    Args:
        x: A tensor of any shape.
        pads: How many elements are added before and behind each axis.
        value: The number.
    """
    inside = ops.pad(ops.ones_like(x, dtype="int32"), pads)
    return ops.where(ops.equal(inside, 1), ops.pad(x, pads), value)


def pad_from_inside(x: Tensor, pads: tuple[tuple[int, int], ...], mode: str) -> Tensor:
    """Borders of mirrored elements (reflect), the last (edge), or the other side's (wrap).

    Args:
        x: A tensor of any shape.
        pads: How many elements are added before and behind each axis.
        mode: reflect, edge or wrap.
    """
    for axis, (before, behind) in enumerate(pads):
        if not before and not behind:
            continue
        size = ops.shape(x)[axis]
        at = ops.arange(-before, size + behind)
        if mode == "edge":
            at = ops.clip(at, 0, size - 1)
        elif mode == "wrap":
            at = ops.mod(at, size)
        else:
            period = ops.maximum(2 * (size - 1), 1)
            at = ops.mod(at, period)
            at = ops.where(ops.less(at, size), at, period - at)
        x = ops.take(x, at, axis=axis)
    return x
