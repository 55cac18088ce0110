"""Integers that stand for real numbers."""

import torch
from torch import Tensor


def quantize(
    x: Tensor, scale: Tensor, zero: Tensor | None, dtype: torch.dtype, axis: int | None = None
) -> Tensor:
    """Integers that stand for x: rounded to half even, cut off at the ends of the type.

    Args:
        x: Real numbers of any shape.
        scale: One number, or one for each place along an axis.
        zero: The integer that stands for 0, in the shape of scale; None: 0.
        dtype: The integers' type.
        axis: The one that scale and zero lie along; None: they are one number.
    """
    scale, zero = along(x, scale, axis), along(x, zero, axis)
    ends = torch.iinfo(dtype)
    whole = torch.round(x / scale) + (0 if zero is None else zero.to(x.dtype))
    return whole.clamp(ends.min, ends.max).to(torch.int32).to(dtype)


def dequantize(x: Tensor, scale: Tensor, zero: Tensor | None, axis: int | None = None) -> Tensor:
    """What integers stand for.

    Args:
        x: Integers of any shape.
        scale: One number, or one for each place along an axis.
        zero: The integer that stands for 0, in the shape of scale; None: 0.
        axis: The one that scale and zero lie along; None: they are one number.
    """
    scale, zero = along(x, scale, axis), along(x, zero, axis)
    whole = x.to(torch.int32)
    return (whole if zero is None else whole - zero.to(torch.int32)).to(scale.dtype) * scale


def along(x: Tensor, values: Tensor | None, axis: int | None) -> Tensor | None:
    """Values for each place along an axis of x.

    Args:
        x: What the values go with.
        values: [places]; None stays None.
        axis: The one that they lie along; None: they are one number.
    """
    if values is None or axis is None:
        return values
    return values.reshape([-1 if i == axis % x.dim() else 1 for i in range(x.dim())])
