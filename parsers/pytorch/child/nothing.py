"""Traces that hold for inputs in which nothing is found.

`boxes.reshape(count, -1)` is an error where the count is 0: what -1 stands for is anyone's guess.
So code has a branch around it, of which a trace keeps what its example took.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_RESHAPING = frozenset({torch.Tensor.reshape, torch.Tensor.view, torch.reshape})


class Reshaping(TorchFunctionMode):  # type: ignore[misc]  # torch is not type-checked
    """Has the -1 in a traced reshape be, of a tensor without elements, what the example had."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Every function of torch that Python calls comes by here."""
        if func in _RESHAPING and len(args) > 1:
            listed = isinstance(args[1], (tuple, list))
            shape = tuple(args[1] if listed else args[1:])
            if any(isinstance(size, torch.Tensor) for size in shape) and torch.jit.is_tracing():
                shape = _settled(args[0], shape)
                args = (args[0], shape) if listed else (args[0], *shape)
        return func(*args, **(kwargs or {}))


def _settled(tensor: torch.Tensor, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    at = next((i for i, size in enumerate(shape) if isinstance(size, int) and size == -1), None)
    left = 0 if at is None else _left_over(tensor, shape, at)
    if not left:
        return shape
    # -1 with elements, what the example had without: one tensor, which the trace follows.
    return (*shape[:at], (tensor.numel() == 0) * (left + 1) - 1, *shape[(at or 0) + 1 :])


def _left_over(tensor: torch.Tensor, shape: Sequence[Any], at: int) -> int:
    """What -1 stands for; 0 where the example has no elements either."""
    state = torch._C._get_tracing_state()
    torch._C._set_tracing_state(None)  # numbers, not nodes
    try:
        if not tensor.numel():
            return 0
        return int(tensor.reshape([int(size) for size in shape]).shape[at])
    finally:
        torch._C._set_tracing_state(state)
