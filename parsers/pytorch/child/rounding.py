"""A model whose operators round in another way, as another runtime's do.

Where a model compares numbers that are equal to rounding (two boxes of one score, two places of
one height), another input doesn't show it: what is made of the same values stays the same. What
another order of summing gives doesn't.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_SHAKE = 2.0**-22
_SUMMING = frozenset(
    {
        *("convolution", "_convolution", "addmm", "mm", "bmm", "baddbmm", "linear"),
        *("upsample_bilinear2d", "upsample_bicubic2d", "native_batch_norm", "_softmax"),
        *("_native_batch_norm_legit_no_training", "native_layer_norm"),
    }
)


class Rounding(TorchDispatchMode):  # type: ignore[misc]  # torch is not type-checked
    """Adds rounding, by `seed`, to what operators that sum give."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Every operator comes by here."""
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ not in _SUMMING:
            return result
        if isinstance(result, torch.Tensor):
            return self._moved(result)
        return (self._moved(result[0]), *result[1:])

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or not tensor.numel():
            return tensor
        noise = _SHAKE * torch.randn((2, *tensor.shape), generator=self._generator)
        return (tensor * (1 + noise[0]) + noise[1] * tensor.abs().mean()).to(tensor.dtype)
