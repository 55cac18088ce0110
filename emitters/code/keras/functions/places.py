"""Elements by their places, as ONNX counts them: negative ones from the end."""

from typing import Any

from keras import ops

Tensor = Any


def slice_backwards(x: Tensor, axis: int, start: Any, end: Any, step: int) -> Tensor:
    """A part along an axis from a place down to another, which isn't in it.

    Args:
        x: A tensor of any shape.
        axis: The one that is cut.
        start: The first place.
        end: The place behind the last one, below start.
        step: Below 0.
    """
    size = ops.cast(ops.shape(x)[axis], "int64")
    start, end = ops.cast(start, "int64"), ops.cast(end, "int64")
    first = ops.minimum(ops.where(start < 0, start + size, start), size - 1)
    last = ops.maximum(ops.where(end < 0, end + size, end), -1)
    count = ops.maximum((first - last - step - 1) // -step, 0)
    return ops.take(x, first + step * ops.arange(count, dtype="int64"), axis=axis)


def gather_elements(x: Tensor, index: Tensor, axis: int) -> Tensor:
    """The elements at one index each along an axis.

    Args:
        x: A tensor of any shape.
        index: Integers, with as many axes as x.
        axis: The one that the indices count along.
    """
    sizes = ops.shape(index)
    rank = len(sizes)
    spans = [slice(None) if a == axis % rank else slice(sizes[a]) for a in range(rank)]
    return ops.take_along_axis(x[tuple(spans)], index, axis=axis)


def gather_nd(x: Tensor, index: Tensor, batch_dims: int = 0) -> Tensor:
    """What lies where the last axis of index says, for each of the axes before.

    Args:
        x: A tensor of any shape.
        index: Integers [..., count]: places along the first count axes behind the batch.
        batch_dims: How many leading axes x and index share.
    """
    sizes, index = ops.shape(x), ops.cast(index, "int64")
    rank, count = len(index.shape), index.shape[-1]
    flat = ops.zeros((1,) * (rank - 1), "int64")
    for axis in range(batch_dims + count):
        size = ops.cast(sizes[axis], "int64")
        if axis < batch_dims:
            shape = [-1 if a == axis else 1 for a in range(rank - 1)]
            place = ops.reshape(ops.arange(sizes[axis], dtype="int64"), shape)
        else:
            place = index[..., axis - batch_dims]
            place = ops.where(place < 0, place + size, place)
        flat = flat * size + place
    return ops.take(ops.reshape(x, (-1, *sizes[batch_dims + count :])), flat, axis=0)


def scatter_elements(
    x: Tensor, index: Tensor, updates: Tensor, axis: int, reduction: str | None = None
) -> Tensor:
    """With updates put at one index each along an axis.

    Args:
        x: A tensor of any shape.
        index: Integers, with as many axes as x.
        updates: What is put there, in the shape of index.
        axis: The one that the indices count along.
        reduction: How old and new elements become one (add, mul, max, min); None replaces them.
    """
    sizes, rank = ops.shape(index), len(index.shape)
    places = []
    for a in range(rank):
        if a == axis % rank:
            own = ops.cast(index, "int64")
            own = ops.where(own < 0, own + ops.cast(ops.shape(x)[a], "int64"), own)
        else:
            own = ops.arange(sizes[a], dtype="int64")
            own = ops.reshape(own, [-1 if i == a else 1 for i in range(rank)])
        places.append(ops.reshape(ops.broadcast_to(own, sizes), (-1,)))
    return ops.scatter_update(x, ops.stack(places, -1), ops.reshape(updates, (-1,)), reduction)


def scatter_nd(x: Tensor, index: Tensor, updates: Tensor, reduction: str | None = None) -> Tensor:
    """With updates put where the last axis of index says.

    Args:
        x: A tensor of any shape.
        index: Integers [..., count]: places along the first count axes.
        updates: What is put there: [..., rest of x].
        reduction: How old and new elements become one (add, mul, max, min); None replaces them.
    """
    sizes, count, places = ops.shape(x), index.shape[-1], []
    for axis in range(count):
        place = ops.reshape(ops.cast(index[..., axis], "int64"), (-1,))
        places.append(ops.where(place < 0, place + ops.cast(sizes[axis], "int64"), place))
    rows = ops.reshape(updates, (-1, *sizes[count:]))
    return ops.scatter_update(x, ops.stack(places, -1), rows, reduction)


def pick(index: Tensor, depth: Any, values: Tensor, axis: int) -> Tensor:
    """The second value where an index says along a new axis, the first elsewhere.

    Args:
        index: Integers of any shape.
        depth: The size of the new axis.
        values: [2]: the value elsewhere, and the value where the index says.
        axis: Where the new axis stands in the result.
    """
    index = ops.cast(index, "int64")
    index = ops.where(index < 0, index + ops.cast(depth, "int64"), index)
    rank = len(index.shape) + 1
    own = ops.arange(depth, dtype="int64")
    own = ops.reshape(own, [-1 if a == axis % rank else 1 for a in range(rank)])
    return ops.where(ops.equal(ops.expand_dims(index, axis), own), values[1], values[0])


def reverse_sequence(x: Tensor, lengths: Tensor, time: int, batch: int) -> Tensor:
    """The first elements of each sequence backwards, the others as they are.

    Args:
        x: A tensor of any shape.
        lengths: [batch], integers: how many elements of each sequence are reversed.
        time: The axis of the steps.
        batch: The axis of the sequences.
    """
    sizes, lengths = ops.shape(x), ops.cast(lengths, "int64")
    at = ops.expand_dims(ops.arange(sizes[time], dtype="int64"), 1)
    back = ops.where(at < lengths, lengths - 1 - at, at)
    index = back if time < batch else ops.transpose(back)
    shape = [sizes[a] if a in (time, batch) else 1 for a in range(len(sizes))]
    return ops.take_along_axis(x, ops.broadcast_to(ops.reshape(index, shape), sizes), axis=time)


def eye_like(x: Tensor, k: int, dtype: str) -> Tensor:
    """Ones on a diagonal of a matrix of the size of x.

    Args:
        x: A matrix.
        k: Which diagonal: 0 is the main one, those above it are positive.
        dtype: The result's.
    """
    rows, columns = (ops.arange(size, dtype="int64") for size in ops.shape(x))
    return ops.cast(ops.equal(columns - ops.expand_dims(rows, 1), k), dtype)
