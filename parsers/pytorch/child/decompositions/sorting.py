"""What sorts, or looks for the largest so far; where NaN goes is each runtime's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .definition import Definition, value

_ATEN = torch.ops.aten


def _sort(x: Any, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    """ONNX's TopK gives equal values in their order, so that every sort is stable."""
    return torch.sort(x, dim, descending)


def _argsort(x: Any, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    return torch.sort(x, dim, descending)[1]


def _median(x: Any) -> Any:
    flat = x.reshape(-1)
    return torch.sort(flat)[0].select(0, (flat.shape[0] - 1) // 2)


def _median_of(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The lower of the two in the middle."""
    return _kth(x, (x.shape[dim] - 1) // 2, dim, keepdim)


def _kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _kth(x, k - 1, dim, keepdim)


def _kth(x: Any, index: Any, dim: int, keepdim: bool) -> Any:
    values, places = (item.narrow(dim, index, 1) for item in torch.sort(x, dim))
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def _cummax(x: Any, dim: int) -> Any:
    return _largest_so_far(x, dim, torch.maximum)


def _cummin(x: Any, dim: int) -> Any:
    return _largest_so_far(x, dim, torch.minimum)


def _largest_so_far(x: Any, dim: int, better: Callable[..., Any]) -> Any:
    """Values, and the last place so far that has them, as torch counts places."""
    found = doubled(x, dim, better)
    counted = torch.arange(x.shape[dim]).reshape([-1] + [1] * ((-1 - dim) % x.dim()))
    return found, doubled(torch.where(x == found, counted, 0), dim, torch.maximum)


def doubled(x: Any, dim: int, better: Callable[..., Any]) -> Any:
    """The best of 2, 4, 8... values up to each place (a prefix scan by doubling).

    Args:
        x: The values.
        dim: The axis that is gone along.
        better: Gives the better of two tensors, element by element.
    """
    size, step = x.shape[dim], 1
    while step < size:
        ahead, rest = x.narrow(dim, 0, step), x.narrow(dim, step, size - step)
        x = torch.cat([ahead, better(rest, x.narrow(dim, 0, size - step))], dim)
        step *= 2
    return x


def of_known_length(node: Any) -> bool:
    """Whether the axis' size is a number; else the number of steps isn't one."""
    x, dim = value(node.args[0]), node.args[1]
    return x.dim() > 0 and isinstance(x.shape[dim], int)


TABLE = {
    _ATEN.sort.stable: Definition(_sort),
    _ATEN.argsort.stable: Definition(_argsort),
    _ATEN.median.default: Definition(_median),
    _ATEN.median.dim: Definition(_median_of),
    _ATEN.kthvalue.default: Definition(_kthvalue),
    _ATEN.cummax.default: Definition(_cummax, of_known_length),
    _ATEN.cummin.default: Definition(_cummin, of_known_length),
}
