"""Elements by their places, as ONNX counts them: negative ones from the end."""

import torch
from torch import Tensor


def slice_along(
    x: Tensor, starts: list[int], ends: list[int], axes: list[int], steps: list[int] | None = None
) -> Tensor:
    """A part along axes whose ends are computed.

    Args:
        x: A tensor of any shape.
        starts: The first place along each axis.
        ends: The place behind the last one, along each.
        axes: Those that are cut.
        steps: From one place to the next, along each; without, 1.
    """
    steps = steps or [1] * len(axes)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 0:
            x = slice_backwards(x, axis, start, end, step)
        else:
            spans = [slice(None)] * x.dim()
            spans[axis] = slice(start, end, step)
            x = x[tuple(spans)]
    return x


def slice_backwards(x: Tensor, axis: int, start: int, end: int, step: int) -> Tensor:
    """A part along an axis from a place down to another, which isn't in it.

    Args:
        x: A tensor of any shape.
        axis: The one that is cut.
        start: The first place.
        end: The place behind the last one, below start.
        step: Below 0.
    """
    size = x.shape[axis]
    first = min(start + size if start < 0 else start, size - 1)
    last = max(end + size if end < 0 else end, -1)
    return x.index_select(axis, torch.arange(first, min(last, first), step, device=x.device))


def gather_elements(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """The elements at one index each along an axis.

    Args:
        x: A tensor of any shape.
        index: Integers, with as many axes as x.
        dim: The axis that the indices count along.
    """
    index = index.long()
    return torch.gather(x, dim, torch.where(index < 0, index + x.shape[dim], index))


def gather_nd(x: Tensor, index: Tensor, batch_dims: int = 0) -> Tensor:
    """What lies where the last axis of index says, for each of the axes before.

    Args:
        x: A tensor of any shape.
        index: Integers [..., count]: places along the first count axes behind the batch.
        batch_dims: How many leading axes x and index share.
    """
    index = index.long()
    places = list(index.unbind(-1))
    for axis in range(batch_dims):
        own = torch.arange(x.shape[axis], device=x.device)
        places.insert(axis, own.reshape([-1 if i == axis else 1 for i in range(index.dim() - 1)]))
    return x[tuple(places)]


def scatter_elements(
    x: Tensor, index: Tensor, updates: Tensor, dim: int, reduce: str = ""
) -> Tensor:
    """With updates put at one index each along an axis.

    Args:
        x: A tensor of any shape.
        index: Integers, with as many axes as x.
        updates: What is put there, in the shape of index.
        dim: The axis that the indices count along.
        reduce: How old and new elements become one (sum, prod, amax, amin); empty replaces them.
    """
    index = index.long()
    index = torch.where(index < 0, index + x.shape[dim], index)
    if reduce:
        return x.scatter_reduce(dim, index, updates, reduce=reduce, include_self=True)
    return x.scatter(dim, index, updates)


def scatter_nd(x: Tensor, index: Tensor, updates: Tensor, reduce: str = "") -> Tensor:
    """With updates put where the last axis of index says.

    Args:
        x: A tensor of any shape.
        index: Integers [..., count]: places along the first count axes.
        updates: What is put there: [..., rest of x].
        reduce: How old and new elements become one (sum, prod, amax, amin); empty replaces them.
    """
    index = index.long()
    count = index.shape[-1]
    flat = torch.zeros(index.shape[:-1], dtype=torch.int64, device=x.device)
    for axis in range(count):
        place = index[..., axis]
        size = x.shape[axis]
        flat = flat * size + torch.where(place < 0, place + size, place)
    rows = x.reshape(x.shape[:count].numel(), -1)
    flat, updates = flat.reshape(-1), updates.reshape(-1, rows.shape[1])
    if reduce:
        each = flat.unsqueeze(1).expand_as(updates)
        return rows.scatter_reduce(0, each, updates, reduce=reduce).reshape(x.shape)
    return rows.index_copy(0, flat, updates).reshape(x.shape)


def compress(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    """What lies where a mask is true, which may be shorter than the axis.

    Args:
        x: A tensor of any shape.
        mask: [places], bool or integers; others than 0 are true.
        dim: The axis that it lies along.
    """
    return x.index_select(dim, mask.nonzero().reshape(-1))


def one_hot(index: Tensor, depth: int, values: Tensor, dim: int) -> Tensor:
    """The second value where an index says along a new axis, the first elsewhere.

    Args:
        index: Integers of any shape.
        depth: The size of the new axis.
        values: [2]: the value elsewhere, and the value where the index says.
        dim: Where the new axis stands in the result.
    """
    index = torch.where(index < 0, index + depth, index)
    rank = index.dim() + 1
    own = torch.arange(depth, device=index.device)
    own = own.reshape([-1 if axis == dim % rank else 1 for axis in range(rank)])
    return torch.where(index.unsqueeze(dim) == own, values[1], values[0])


def reverse_sequence(x: Tensor, lengths: Tensor, time: int, batch: int) -> Tensor:
    """The first elements of each sequence backwards, the others as they are.

    Args:
        x: A tensor of any shape.
        lengths: [batch], integers: how many elements of each sequence are reversed.
        time: The axis of the steps.
        batch: The axis of the sequences.
    """
    at = torch.arange(x.shape[time], device=x.device).unsqueeze(1)
    back = torch.where(at < lengths, lengths - 1 - at, at)
    index = back if time < batch else back.T
    shape = [1] * x.dim()
    shape[time], shape[batch] = x.shape[time], x.shape[batch]
    return torch.gather(x, time, index.reshape(shape).expand_as(x))
