"""Signs, the greater where NaN counts for nothing, products so far, edges that are repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .definition import Definition, value
from .sorting import doubled, of_known_length

_ATEN = torch.ops.aten


def _signbit(x: Any) -> Any:
    """Whether a number is negative; -0.0 is, as 1 / -0.0 says."""
    return (x < 0) | ((x == 0) & (1 / x < 0)) if x.dtype.is_floating_point else x < 0


def _copysign(x: Any, sign: Any) -> Any:
    x, sign = _floats(x), sign if isinstance(sign, torch.Tensor) else torch.full_like(x, sign)
    return torch.where(_signbit(sign), -x.abs(), x.abs())


def _floats(x: Any) -> Any:
    return x if x.dtype.is_floating_point else x.to(torch.float32)


def _known(better: Callable[..., Any]) -> Callable[..., Any]:
    def known(x: Any, y: Any) -> Any:
        """NaN only where both are."""
        if not (x.dtype.is_floating_point or y.dtype.is_floating_point):
            return better(x, y)
        return torch.where(x.isnan(), y, torch.where(y.isnan(), x, better(x, y)))

    return known


def _cumprod(x: Any, dim: int, *, dtype: Any = None) -> Any:
    if not x.dtype.is_floating_point:
        x = x.to(torch.int64)
    return doubled(x if dtype is None else x.to(dtype), dim, torch.mul)


def _repeats_a_cut(node: Any) -> bool:
    """Whether edges are repeated of what is cut at another end: Pad cuts first."""
    pads, mode = node.args[1], (*node.args, *node.kwargs.values())[2:3]
    return mode == ("replicate",) and any(isinstance(n, int) and n < 0 for n in pads)


def _pad(x: Any, pads: Any, mode: str = "constant", value: Any = None) -> Any:
    for index in range(len(pads) // 2):
        before, after = pads[2 * index], pads[2 * index + 1]
        if before or after:
            axis = x.dim() - 1 - index
            places = torch.arange(-before, x.shape[axis] + after)
            x = x.index_select(axis, places.clamp(0, x.shape[axis] - 1))
    return x


def _has_axes(node: Any) -> bool:
    return value(node.args[0]).dim() > 0 and of_known_length(node)


TABLE = {
    _ATEN.signbit.default: Definition(_signbit),
    _ATEN.copysign.Tensor: Definition(_copysign),
    _ATEN.copysign.Scalar: Definition(_copysign),
    _ATEN.fmax.default: Definition(_known(torch.maximum)),
    _ATEN.fmin.default: Definition(_known(torch.minimum)),
    _ATEN.cumprod.default: Definition(_cumprod, _has_axes),
    _ATEN.pad.default: Definition(_pad, _repeats_a_cut),
}
