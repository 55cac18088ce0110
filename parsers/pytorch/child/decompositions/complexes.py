"""Complex numbers where torch's translations know real ones alone.

In ONNX a complex tensor is a real one with an axis of two behind the others, so that what moves
elements about moves pairs:

    unsqueeze(z, dim)  ->  view_as_complex(unsqueeze(view_as_real(z), dim))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .definition import Definition, value


def _complex(node: Any) -> bool:
    found = value(node.args[0])
    return isinstance(found, torch.Tensor) and found.is_complex()


def _by_axis(function: Callable[..., Any], more: int = 0) -> Definition:
    """An operator whose second argument is an axis (or several), of as many axes as its input and
    ``more``."""

    def pairs(z: Any, dim: Any, *rest: Any) -> Any:
        def place(axis: int) -> Any:
            return axis % (z.dim() + more)

        if not z.is_complex():
            return NotImplemented
        axes = [place(axis) for axis in dim] if isinstance(dim, (list, tuple)) else place(dim)
        return torch.view_as_complex(function(torch.view_as_real(z), axes, *rest))

    return Definition(pairs, _complex)


def _by_sizes(function: Callable[..., Any], last: int) -> Definition:
    """An operator whose second argument says something of each axis; of the pairs', ``last``."""

    def pairs(z: Any, sizes: Any, **options: Any) -> Any:
        if not z.is_complex():
            return NotImplemented
        return torch.view_as_complex(function(torch.view_as_real(z), [*sizes, last]))

    return Definition(pairs, _complex)


def _index(z: Any, indices: Any) -> Any:
    if not z.is_complex():
        return NotImplemented
    return torch.view_as_complex(_ATEN.index.Tensor(torch.view_as_real(z), indices))


def _divided(z: Any, divisor: Any) -> Any:
    """By a number: its pairs are; by another complex number, times that one's conjugate."""
    if not z.is_complex():
        return NotImplemented
    if not isinstance(divisor, torch.Tensor) or not divisor.is_complex():
        real = divisor.unsqueeze(-1) if isinstance(divisor, torch.Tensor) else divisor
        return torch.view_as_complex(torch.view_as_real(z) / real)
    pairs = torch.view_as_real(divisor)
    square = (pairs * pairs).sum(-1, keepdim=True)
    return torch.view_as_complex(torch.view_as_real(z * divisor.conj()) / square)


def _polar(magnitude: Any, angle: Any) -> Any:
    parts = [magnitude * angle.cos(), magnitude * angle.sin()]
    return torch.view_as_complex(torch.stack(parts, -1))


def _made(real: Any, imag: Any) -> Any:
    return torch.view_as_complex(torch.stack([real, imag], -1))


_ATEN = torch.ops.aten
TABLE = {
    _ATEN.unsqueeze.default: _by_axis(torch.unsqueeze, 1),
    _ATEN.squeeze.dims: _by_axis(_ATEN.squeeze.dims),
    _ATEN.select.int: _by_axis(torch.select),
    _ATEN.index_select.default: _by_axis(torch.index_select),
    _ATEN.expand.default: _by_sizes(_ATEN.expand.default, 2),
    _ATEN.repeat.default: _by_sizes(_ATEN.repeat.default, 1),
    _ATEN.index.Tensor: Definition(_index, _complex),
    _ATEN.div.Tensor: Definition(_divided, _complex),
    _ATEN.polar.default: Definition(_polar),
    _ATEN.complex.default: Definition(_made),
}
