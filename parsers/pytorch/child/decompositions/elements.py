"""Signs, the greater where NaN counts for nothing, products so far, edges that are repeated, norms
of scalars, and the scaled complementary error function."""

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
    if mode != "replicate":
        return NotImplemented
    for index in range(len(pads) // 2):
        before, after = pads[2 * index], pads[2 * index + 1]
        if before or after:
            axis = x.dim() - 1 - index
            places = torch.arange(-before, x.shape[axis] + after)
            x = x.index_select(axis, places.clamp(0, x.shape[axis] - 1))
    return x


def _is_scalar(node: Any) -> bool:
    x = value(node.args[0])
    return bool(x.dim() == 0 and x.dtype.is_floating_point)


def _vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Of a scalar, whose one axis ONNX hasn't."""
    if x.dim():
        return NotImplemented
    x = x if dtype is None else x.to(dtype)
    return (x != 0).to(x.dtype) if ord == 0 else x.abs()


_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip
"""Of the polynomial in ``erfc(x) = t exp(-x^2 + P(t))``, ``t = 2 / (2 + x)`` for x from 0 on, to
1.2e-7 of it: Press et al., Numerical Recipes, "erfcc"."""


def _erfcx(x: Any) -> Any:
    """``exp(x^2) erfc(x)`` without either factor, of which one overflows where the other is 0."""
    x = _floats(x)
    t = 2 / (2 + x.abs())
    exponent = torch.full_like(t, _ERFC[-1])
    for number in _ERFC[-2::-1]:
        exponent = exponent * t + number
    positive = t * exponent.exp()
    return torch.where(x < 0, 2 * (x * x).exp() - positive, positive)


def _log_ndtr(x: Any) -> Any:
    """The logarithm of the normal distribution's cumulative function."""
    x = _floats(x)
    scaled = x * 0.5**0.5
    low = (_erfcx(-scaled) / 2).log() - scaled * scaled
    return torch.where(x < 1, low, torch.log1p(-torch.erfc(scaled) / 2))


def _has_axes(node: Any) -> bool:
    return value(node.args[0]).dim() > 0 and of_known_length(node)


TABLE = {
    _ATEN.signbit.default: Definition(_signbit),
    _ATEN.copysign.Tensor: Definition(_copysign),
    _ATEN.copysign.Scalar: Definition(_copysign),
    _ATEN.fmax.default: Definition(_known(torch.maximum)),
    _ATEN.fmin.default: Definition(_known(torch.minimum)),
    _ATEN.cumprod.default: Definition(_cumprod, _has_axes),
    _ATEN.special_erfcx.default: Definition(_erfcx),
    _ATEN.special_log_ndtr.default: Definition(_log_ndtr),
    _ATEN.pad.default: Definition(_pad, _repeats_a_cut),
    _ATEN.linalg_vector_norm.default: Definition(_vector_norm, _is_scalar),
}
