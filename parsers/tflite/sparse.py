"""Unpacks sparse constants.

The format is TACO's, as ``SparsityParameters`` in ``tflite.fbs`` describes it: dimensions are
stored level by level in ``traversal_order``; a level is dense (every index) or compressed
(``array_segments`` says which part of ``array_indices`` belongs to each entry of the level
above). Blocks add levels of their own behind the tensor's: block dimension ``k`` splits the
tensor's dimension ``block_map[k]``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from converter.errors import ModelError

Array = np.ndarray[Any, Any]

LARGEST = 1 << 28
"""Elements of a sparse tensor above which it isn't written out."""

_DENSE, _COMPRESSED = 0, 1


def densify(values: Array, shape: tuple[int, ...], sparsity: Any, name: str) -> Array:
    """The dense tensor.

    Args:
        values: What is stored, flat, in the order of the levels.
        shape: The dense tensor's.
        sparsity: The schema's ``SparsityParametersT``.
        name: The tensor's, for messages.

    Raises:
        ModelError: It is too large, or its levels contradict each other.
    """
    if math.prod(shape) > LARGEST:
        raise ModelError(
            f"the sparse tensor {name} of shape {list(shape)} is too large", code="model-too-large"
        )
    try:
        return _densify(values, shape, sparsity)
    except (IndexError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ModelError(
            f"the sparse tensor {name} contradicts itself: {error}", code="model-damaged"
        ) from error


def _densify(values: Array, shape: tuple[int, ...], sparsity: Any) -> Array:
    rank = len(shape)
    order = [int(item) for item in sparsity.traversalOrder]
    blocks = [int(item) for item in _listed(sparsity.blockMap)]
    levels = sparsity.dimMetadata
    if sorted(order) != list(range(rank + len(blocks))) or len(levels) != len(order):
        raise ValueError(f"{len(levels)} levels in the order {order} for {rank} dimensions")
    if any(not 0 <= dim < rank for dim in blocks):
        raise ValueError(f"blocks of the dimensions {blocks}, of {rank}")
    coordinates = _walk(levels, order, math.prod(shape))
    count = len(coordinates[order[0]]) if order else 1
    if count != len(values):
        raise ValueError(f"{len(values)} values for {count} places")
    for k, dim in enumerate(blocks):
        size = int(levels[order.index(rank + k)].denseSize)
        coordinates[dim] = coordinates[dim] * size + coordinates[rank + k]
    for dim in range(rank):
        if count and not 0 <= coordinates[dim].min() <= coordinates[dim].max() < shape[dim]:
            raise ValueError(f"places outside dimension {dim} of {shape[dim]}")
    dense = np.zeros(shape, values.dtype)
    dense[tuple(coordinates[dim] for dim in range(rank))] = values
    return dense


def _walk(levels: list[Any], order: list[int], most: int) -> dict[int, Array]:
    """For each (block) dimension, the index of each stored value."""
    entries = np.zeros(1, np.int64)
    coordinates: dict[int, Array] = {}
    for level, dim in zip(levels, order, strict=True):
        parents, entries, indices = _expand(level, entries, most)
        coordinates = {known: array[parents] for known, array in coordinates.items()}
        coordinates[dim] = indices
    return coordinates


def _expand(level: Any, entries: Array, most: int) -> tuple[Array, Array, Array]:
    """What one level makes of the entries above it: for each of its own entries, the one above
    that it belongs to (by place), its number, and its index."""
    above = np.arange(len(entries))
    if level.format == _DENSE:
        size = int(level.denseSize)
        if size < 0 or len(entries) * size > most:
            raise ValueError(f"a dense level of {size} below {len(entries)} entries")
        indices = np.tile(np.arange(size), len(entries))
        return np.repeat(above, size), np.repeat(entries * size, size) + indices, indices
    if level.format != _COMPRESSED:
        raise ValueError(f"a level of the unknown format {level.format}")
    segments = np.asarray(level.arraySegments.values).astype(np.int64)
    stored = np.asarray(level.arrayIndices.values).astype(np.int64)
    starts, counts = segments[entries], segments[entries + 1] - segments[entries]
    total = int(counts.sum())
    if (counts < 0).any() or (starts < 0).any() or total > most:
        raise ValueError(f"segments of {total} entries")
    begins = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    numbers = begins + np.arange(total)
    return np.repeat(above, counts), numbers, stored[numbers]


def _listed(values: Any) -> Any:
    return () if values is None else values
