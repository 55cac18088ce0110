"""Normalizations that PyTorch hasn't in this form."""

import torch
from torch import Tensor


def hardmax(x: Tensor, dim: int) -> Tensor:
    """One at the first of the largest along an axis, zero elsewhere."""
    place = torch.argmax(x, dim=dim, keepdim=True)
    return torch.zeros_like(x).scatter(dim, place, 1)


def softmax_of_halves(x: Tensor, dim: int) -> Tensor:
    """Softmax by its formula: of halves, each step of it rounds."""
    powers = torch.exp(x - x.amax(dim=dim, keepdim=True))
    return powers / powers.sum(dim=dim, keepdim=True)
