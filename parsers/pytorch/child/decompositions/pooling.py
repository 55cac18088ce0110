"""Adaptive max pooling of sizes that don't divide: windows that overlap, written as Gathers.

    start(i) = floor(i n / out), end(i) = ceil((i + 1) n / out)

The windows of one axis are of two lengths at most; the shorter ones repeat their last element,
which no maximum sees.
"""

# zip() knows no strict= before Python 3.10.
# ruff: noqa: B905

from __future__ import annotations

from typing import Any

import torch

from .definition import Definition, value

_AXES = {"adaptive_max_pool1d": 1, "adaptive_max_pool2d": 2, "adaptive_max_pool3d": 3}


def _windows(size: int, out: int) -> Any:
    """The places of each window's elements: [out, longest]."""
    ends = [((i + 1) * size + out - 1) // out for i in range(out)]
    longest = max(end - i * size // out for i, end in enumerate(ends))
    counted = torch.arange(out)
    starts = counted * size // out
    last = ((counted + 1) * size + out - 1) // out - 1
    places = starts.unsqueeze(1) + torch.arange(longest).unsqueeze(0)
    return torch.minimum(places, last.unsqueeze(1))


def _pooled(x: Any, output_size: Any) -> Any:
    """Values, and where each is in its channel, row by row."""
    axes = len(output_size)
    sizes = [int(size) for size in x.shape[-axes:]]
    windows = [_windows(size, int(out)) for size, out in zip(sizes, output_size)]
    gathered, first = x, x.dim() - axes
    for axis, places in enumerate(windows):  # ... out_0, longest_0, out_1, longest_1
        at = first + 2 * axis
        gathered = gathered.index_select(at, places.reshape(-1))
        gathered = gathered.unflatten(at, list(places.shape))
    inner = range(first, first + 2 * axes)
    gathered = gathered.permute([*range(first), *inner[::2], *inner[1::2]]).flatten(first + axes)
    best = gathered.argmax(-1, keepdim=True)
    place = _places(windows, sizes).expand(*gathered.shape)
    return gathered.amax(-1), place.gather(-1, best).squeeze(-1)


def _places(windows: Any, sizes: Any) -> Any:
    """The place in the channel of each element of each window: [out_0, out_1, elements]."""
    axes, total = len(windows), torch.zeros([1] * (2 * len(windows)), dtype=torch.int64)
    for axis, (places, size) in enumerate(zip(windows, sizes)):
        shape = [1] * (2 * axes)
        shape[axis], shape[axes + axis] = places.shape
        total = total * size + places.reshape(shape)
    return total.flatten(axes)


def _of_known_sizes(node: Any) -> bool:
    axes = len(node.args[1])
    sizes = [*value(node.args[0]).shape[-axes:], *node.args[1]]
    return all(isinstance(size, int) for size in sizes)


_ATEN = torch.ops.aten
TABLE = {getattr(_ATEN, name).default: Definition(_pooled, _of_known_sizes) for name in _AXES}
