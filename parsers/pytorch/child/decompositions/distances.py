"""Distances between rows; TorchScript's exporter adds to their exponent."""

from __future__ import annotations

import math
from typing import Any

import torch

from .definition import Definition

_ATEN = torch.ops.aten


def _cdist(one: Any, other: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    """The p-norm of each row of `one` minus each of `other`; of p = 0 how many differ."""
    apart = (one.unsqueeze(-2) - other.unsqueeze(-3)).abs()
    if p == 0:
        return (apart != 0).to(apart.dtype).sum(-1)
    if math.isinf(p):
        return apart.amax(-1)
    if p == 1:
        return apart.sum(-1)
    return (apart * apart).sum(-1).sqrt() if p == 2 else apart.pow(p).sum(-1).pow(1 / p)


TABLE = {
    _ATEN.cdist.default: Definition(_cdist),
    _ATEN._cdist_forward.default: Definition(_cdist),
}
