"""Normalizations that PyTorch hasn't in this form."""

import torch
from torch import Tensor


def hardmax(x: Tensor, dim: int) -> Tensor:
    """One at the first of the largest along an axis, zero elsewhere."""
    place = torch.argmax(x, dim=dim, keepdim=True)
    return torch.zeros_like(x).scatter(dim, place, 1)
