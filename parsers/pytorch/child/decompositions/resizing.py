"""Nearest neighbours as torch finds them: a place times a float32, rounded down.

Resize has its own arithmetic in each runtime, which parts from that by a pixel where a product is
nearly a whole number. So a size that is no multiple of the other is taken by its places:

    nearest        floor(i s)                      s = float32(in / out)
    nearest-exact  floor(((i + 1/2) s - 1/2) + 1/2)    or float32(1 / scale_factor)

The brackets are rounded once: torch multiplies and subtracts in one instruction.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torch

from .definition import Definition, value

_NAMES = ("upsample_nearest{}d", "_upsample_nearest_exact{}d")


def _scales(sizes: Any, outs: Any, factors: Any) -> list[float]:
    given = list(factors) if factors else [None] * len(outs)
    return [1.0 / factor if factor else size / out for size, out, factor in zip(sizes, outs, given)]


def _places(size: int, out: int, scale: float, shift: float) -> Any:
    (single,) = struct.unpack("f", struct.pack("f", scale))
    exact = (torch.arange(out, dtype=torch.float64) + shift) * single - shift
    places = (exact.to(torch.float32) + shift).floor()
    return places.to(torch.int64).clamp(max=size - 1)


def _picked(x: Any, outs: Any, factors: Any, shift: float) -> Any:
    axes, sizes = x.dim() - 2, list(x.shape[2:])
    outs = list(outs) if outs else [int(size * by) for size, by in zip(sizes, factors)]
    if not _unlike(sizes, outs):
        return NotImplemented
    for axis, scale in zip(range(axes), _scales(sizes, outs, factors)):
        size, out = sizes[axis], outs[axis]
        if out != size or scale != 1:
            x = x.index_select(axis + 2, _places(size, out, scale, shift))
    return x


def _by_factors(shift: float) -> Callable[..., Any]:
    def picked(x: Any, output_size: Any, scale_factors: Any = None) -> Any:
        return _picked(x, output_size, scale_factors, shift)

    return picked


def _by_scales(shift: float) -> Callable[..., Any]:
    def picked(x: Any, output_size: Any, *scales: Any) -> Any:
        known = scales if scales and all(scales) else None
        return _picked(x, output_size, known, shift)

    return picked


def _needed(node: Any) -> bool:
    return _unlike(value(node.args[0]).shape[2:], value(node).shape[2:])


def _unlike(sizes: Any, outs: Any) -> bool:
    """Whether sizes are numbers, of which neither divides the other on some axis."""
    if not all(isinstance(size, int) for size in (*sizes, *outs)):
        return False
    return any(out % size and size % out for size, out in zip(sizes, outs))


_ATEN = torch.ops.aten
TABLE = {}
for _axes in (1, 2, 3):
    for _name, _shift in zip(_NAMES, (0.0, 0.5)):
        _packet = getattr(_ATEN, _name.format(_axes))
        TABLE[_packet.default] = Definition(_by_scales(_shift), _needed)
        TABLE[_packet.vec] = Definition(_by_factors(_shift), _needed)
