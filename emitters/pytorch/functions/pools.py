"""Pools that PyTorch hasn't in this form."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def max_pool_with_places(
    pool: Callable[..., tuple[Tensor, Tensor]], x: Tensor, kernel: object, **settings: object
) -> tuple[Tensor, Tensor]:
    """The largest of each window, and where they are in the whole tensor.

    Args:
        pool: F.max_pool1d, F.max_pool2d or F.max_pool3d.
        x: [batch, channels, space...].
        kernel: The window's size.
        **settings: Other arguments of the pool.

    Returns:
        The largest elements, and their places in x as one row of elements, in int64.
    """
    values, places = pool(x, kernel, return_indices=True, **settings)
    inside = x.shape[2:].numel()
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device) * inside
    return values, places + planes.reshape(x.shape[0], x.shape[1], *[1] * (x.dim() - 2))


def average_inside(
    pool: Callable[..., Tensor],
    x: Tensor,
    kernel: object,
    pads: tuple[int, ...],
    **settings: object,
) -> Tensor:
    """The mean of each window, without what lies outside of the tensor.

    Args:
        pool: F.avg_pool1d, F.avg_pool2d or F.avg_pool3d.
        x: [batch, channels, space...].
        kernel: The window's size.
        pads: How many zeros are added before and behind each axis, the last axis first.
        **settings: Other arguments of the pool.
    """
    inside = F.pad(torch.ones_like(x[:1, :1]), pads)
    return pool(F.pad(x, pads), kernel, **settings) / pool(inside, kernel, **settings)
