"""Reductions that PyTorch hasn't in this form."""

import torch
from torch import Tensor


def cumulative_sum(x: Tensor, dim: int, exclusive: bool, reverse: bool) -> Tensor:
    """Sums up to each element.

    Args:
        x: A tensor of any shape.
        dim: The axis that is summed along.
        exclusive: Whether an element is left out of its own sum.
        reverse: Whether sums begin at the end.
    """
    x = torch.flip(x, (dim,)) if reverse else x
    total = torch.cumsum(x, dim=dim, dtype=x.dtype)
    if exclusive:
        zero = torch.zeros_like(x.narrow(dim, 0, 1))
        total = torch.cat([zero, total.narrow(dim, 0, x.shape[dim] - 1)], dim=dim)
    return torch.flip(total, (dim,)) if reverse else total


def top_k(x: Tensor, count: int, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The first elements in order, and where they are; of equal ones the first is first.

    Args:
        x: A tensor of any shape.
        count: How many are given.
        dim: The axis that they are sorted along.
        largest: Whether the largest come first; else the smallest.

    Returns:
        The elements, and their places along the axis in int64.
    """
    values, indices = torch.sort(x, dim=dim, descending=largest, stable=True)
    return values.narrow(dim, 0, count), indices.narrow(dim, 0, count)
