"""Translations of our own, where torch's give something else than eager, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Translation = Callable[..., Any]


def table() -> dict[Any, Translation]:
    """Our translations by operator, as torch.onnx.export takes them."""
    from . import attention, recurrent

    named = {**attention.TABLE, **recurrent.TABLE}
    found = {_operator(name): function for name, function in named.items()}
    return {operator: function for operator, function in found.items() if operator is not None}


def _operator(name: str) -> Any:
    """The operator of a name such as ``aten.scatter.src``; None where this torch has none."""
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
