"""Rearrangements that PyTorch hasn't in this form."""

import torch
from torch import Tensor


def reshape(x: Tensor, shape: Tensor) -> Tensor:
    """To a shape in a tensor, where zeros stand for the size that x has there."""
    sizes = [x.shape[axis] if size == 0 else size for axis, size in enumerate(shape.tolist())]
    return x.reshape(sizes)


def eye_like(x: Tensor, k: int, dtype: torch.dtype) -> Tensor:
    """Ones on a diagonal of a matrix of the size of x.

    Args:
        x: A matrix.
        k: Which diagonal: 0 is the main one, those above it are positive.
        dtype: The result's.
    """
    rows = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    columns = torch.arange(x.shape[1], device=x.device)
    return (columns - rows == k).to(dtype)


def depth_to_space(x: Tensor, block: int) -> Tensor:
    """Channels [row, column, depth] as blocks of places."""
    n, c, h, w = x.shape
    x = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c // block**2, h * block, w * block)


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Blocks of places as channels [row, column, depth]."""
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // block, block, w // block, block).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(n, c * block**2, h // block, w // block)


def pad_from_inside(x: Tensor, pads: tuple[int, ...], mode: str) -> Tensor:
    """Borders of mirrored elements (reflect), the last (edge), or the other side's (wrap).

    Args:
        x: A tensor of any shape.
        pads: How many elements are added before and behind each axis, the last axis first.
        mode: reflect, edge or wrap.
    """
    for place in range(0, len(pads), 2):
        axis, before, behind = x.dim() - 1 - place // 2, pads[place], pads[place + 1]
        if not before and not behind:
            continue
        size = x.shape[axis]
        at = torch.arange(-before, size + behind, device=x.device)
        if mode == "edge":
            at = at.clamp(0, size - 1)
        elif mode == "wrap":
            at = at % size
        else:
            period = max(2 * (size - 1), 1)
            at = at % period
            at = torch.where(at < size, at, period - at)
        x = x.index_select(axis, at)
    return x
