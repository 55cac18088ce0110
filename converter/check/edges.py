"""Edges of a model's inputs, made from its interface and its graph.

Where a wrong conversion hides: a mask that lets nothing through, the largest index, an integer that
float32 can't hold, ties, silence, values that no sample has, NaN where the model has an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from converter.check.sums import Array
from converter.ir.model import TensorSpec
from converter.verify.probes import LARGE, Feeds

BEYOND = 2**24 + 1
"""The least integer that float32 doesn't hold."""

WIDE = 2**31
"""The least positive integer that int32 doesn't hold."""

UNSEEN = "\N{SNOWMAN} unseen"
"""A text that no sample has."""


def edges(
    specs: Sequence[TensorSpec], seen: Feeds, entries: Mapping[str, int], *, made_up: bool = False
) -> Iterator[tuple[str, Feeds]]:
    """Names and feeds; what an edge doesn't change is as in ``seen``.

    Args:
        specs: The inputs.
        seen: A sample.
        entries: How many entries an input that is an index has to choose from, where known.
        made_up: Whether the sample is, and its 0 and 1 say nothing of what they are for.
    """
    floats = [spec for spec in specs if spec.is_float and seen[spec.name].size]
    for name, values in _of_floats(floats, seen):
        yield name, {**seen, **values}
    for spec in specs:
        array = seen[spec.name]
        if not spec.is_float and array.size:
            mask = _is_mask(array) and (not made_up or "mask" in spec.name)
            for name, changed in _of_others(spec, array, entries.get(spec.name), mask):
                yield f"{spec.name} {name}", {**seen, spec.name: changed}


def spoiling(
    specs: Sequence[TensorSpec], seen: Feeds
) -> Iterator[tuple[str, Feeds, tuple[tuple[Feeds, Feeds], ...]]]:
    """Edges that would spoil whatever is in one batch with them: NaN, and infinity, which any
    saturation may take.

    With NaN come pairs of feeds, one with NaN and one with 0 in its place, of the sample and of the
    sample negated: a ReLU may turn all of one of them into 0.
    """
    for spec in specs:
        array = seen[spec.name]
        if spec.is_float and array.size:
            of = [
                [{**seen, spec.name: _spotted(each, value)} for each in (array, -array)]
                for value in (np.nan, 0.0)
            ]
            yield f"NaN in {spec.name}", of[0][0], tuple(zip(*of, strict=True))
            yield f"infinity in {spec.name}", {**seen, spec.name: _spotted(array, np.inf)}, ()


def _spotted(array: Array, value: float) -> Array:
    """With some of its values another."""
    made = array.copy()
    made.reshape(-1)[:: max(2, array.size // 4)] = value
    return made


def wide(specs: Sequence[TensorSpec], seen: Feeds) -> Iterator[tuple[str, Feeds]]:
    """Integers that 32 bits don't hold, of each input that has more; named after it."""
    for spec in specs:
        array = seen[spec.name]
        if array.dtype.kind == "i" and array.dtype.itemsize == 8 and array.size:
            yield spec.name, {**seen, spec.name: array + WIDE}


def _of_floats(specs: Sequence[TensorSpec], seen: Feeds) -> Iterator[tuple[str, Feeds]]:
    masks = [spec for spec in specs if _is_mask(seen[spec.name])]
    for spec in masks:
        yield f"{spec.name} all zero", {spec.name: np.zeros_like(seen[spec.name])}
    plain = [spec for spec in specs if spec not in masks]
    if not plain:
        return
    arrays = {spec.name: seen[spec.name] for spec in plain}
    yield "zeros", {name: np.zeros_like(array) for name, array in arrays.items()}
    yield "ones", {name: np.ones_like(array) for name, array in arrays.items()}
    yield "pairs of equal values", {name: _paired(array) for name, array in arrays.items()}
    yield (
        "ten times the sample, negated",
        {name: (array * -10).astype(array.dtype) for name, array in arrays.items()},
    )
    yield "large values", {name: _large(array) for name, array in arrays.items()}


def _of_others(
    spec: TensorSpec, array: Array, entries: int | None, mask: bool
) -> Iterator[tuple[str, Array]]:
    if spec.dtype == "bool":
        for value in (False, True):
            yield f"all {value}", np.full_like(array, value)
        if array.ndim:
            yield "False but for the first", _first_only(array)
    elif spec.dtype == "string":
        yield "empty", np.full_like(array, "")
        yield "unseen", np.full_like(array, UNSEEN)
    elif array.dtype.kind in "iu" and spec.scale is None:
        yield "all 0", np.zeros_like(array)
        if mask:
            yield "0 but for the first", _first_only(array)
        else:
            yield "all the same", np.full_like(array, array.flat[0])
        if entries:
            yield f"all {entries - 1}, the largest", np.full_like(array, entries - 1)
        elif array.dtype.itemsize >= 4 and not mask:
            yield f"beyond 2^24, {BEYOND}", (array + array.dtype.type(BEYOND))


def _is_mask(array: Array) -> bool:
    """Whether a sample's values are 0 and 1, most likely for true and false."""
    return array.size > 1 and bool(((array == 0) | (array == 1)).all()) and bool((array == 1).any())


def _first_only(array: Array) -> Array:
    made = np.zeros_like(array)
    made[..., :1] = 1
    return made


def _paired(array: Array) -> Array:
    """Each second value along the last axis is the one before it."""
    made = array.copy()
    if made.ndim:
        made[..., 1::2] = made[..., : made.shape[-1] // 2 * 2 : 2]
    return made


def _large(array: Array) -> Array:
    made = np.full_like(array, LARGE)
    made.reshape(-1)[1::2] *= -1
    return made
