"""Reductions that PyTorch hasn't in this form."""

import torch
from torch import Tensor


def cumulative_sum(x: Tensor, dim: int, exclusive: bool, reverse: bool) -> Tensor:
    """Sums up to each element, from the end with reverse, without itself with exclusive."""
    x = torch.flip(x, (dim,)) if reverse else x
    total = torch.cumsum(x, dim=dim, dtype=x.dtype)
    if exclusive:
        zero = torch.zeros_like(x.narrow(dim, 0, 1))
        total = torch.cat([zero, total.narrow(dim, 0, x.shape[dim] - 1)], dim=dim)
    return torch.flip(total, (dim,)) if reverse else total


def top_k(x: Tensor, count: int, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The first elements in order, and where they are; of equal ones the first is first."""
    values, indices = torch.sort(x, dim=dim, descending=largest, stable=True)
    return values.narrow(dim, 0, count), indices.narrow(dim, 0, count)
