"""Integers that stand for real numbers."""

from typing import Any

from keras import ops

Tensor = Any


def quantize(
    x: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    dtype: str,
    ends: tuple[int, int],
    axis: int | None = None,
    block: int = 0,
) -> Tensor:
    """Integers that stand for x: rounded to half even, cut off at the ends of the type.

    Args:
        x: Real numbers of any shape.
        scale: One number, or one for each place along an axis, or for each block.
        zero: The integer that stands for 0, in the shape of scale; None: 0.
        dtype: The integers' type.
        ends: Its smallest and its largest number.
        axis: The one that scale and zero lie along; None: they are one number.
        block: How many neighbouring places share a scale; 0: each has its own.
    """
    scale, zero = along(x, scale, axis, block), along(x, zero, axis, block)
    whole = ops.round(ops.cast(x, scale.dtype) / scale)
    if zero is not None:
        whole = whole + ops.cast(zero, scale.dtype)
    return ops.cast(ops.cast(ops.clip(whole, *ends), "int32"), dtype)


def dequantize(
    x: Tensor, scale: Tensor, zero: Tensor | None, axis: int | None = None, block: int = 0
) -> Tensor:
    """What integers stand for.

    Args:
        x: Integers of any shape.
        scale: One number, or one for each place along an axis, or for each block.
        zero: The integer that stands for 0, in the shape of scale; None: 0.
        axis: The one that scale and zero lie along; None: they are one number.
        block: How many neighbouring places share a scale; 0: each has its own.
    """
    scale, zero = along(x, scale, axis, block), along(x, zero, axis, block)
    whole = ops.cast(x, "int32")
    if zero is not None:
        whole = whole - ops.cast(zero, "int32")
    return ops.cast(whole, scale.dtype) * scale


def along(x: Tensor, values: Tensor | None, axis: int | None, block: int) -> Tensor | None:
    """Values for each place along an axis of x, or each block of places.

    Args:
        x: What the values go with.
        values: [places], or with an axis for each of x where there are blocks; None stays None.
        axis: The one that they lie along; None: they are one number.
        block: How many neighbouring places share a value; 0: each has its own.
    """
    if values is None or axis is None:
        return values
    if block:
        sizes = ops.shape(x)
        spans = [slice(size) for size in sizes]
        return ops.repeat(values, block, axis=axis)[tuple(spans)]
    rank = len(x.shape)
    return ops.reshape(values, [-1 if a == axis % rank else 1 for a in range(rank)])
