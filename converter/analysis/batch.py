"""Whether a model takes batches: two samples are run alone and together.

A file may call a dimension free, and still hold a Reshape to a fixed size, a state of one
sample, or a statistic over the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from converter.errors import ModelError
from converter.ir.model import BATCH, Model, TensorSpec
from converter.ir.value_ranges import ROUNDING, output_ranges
from converter.runtime.ort import OrtSession, RefusedModel

Array = np.ndarray[Any, Any]


Ran = tuple[Mapping[str, Array], dict[str, Array]]
"""What a model was given, and what it gave, by name."""


_TOLERANCE = 1e-3


_COARSE = 0.1


_BATCH_WIDE_SCALES = frozenset({"DynamicQuantizeLinear"})
"""Operators that take one scale for the whole batch, by design: results shift by a step."""


@dataclass(frozen=True)
class BatchFinding:
    """What came of running batches of 1 and of 2.

    Attributes:
        works_at_2: The model takes batches, and each sample's results are its own.
        reason: Where it doesn't: what happened.
        skipped: Outputs that have no batch dimension and could not be compared.
        runs: What the model gave: inputs and outputs by name, of each run.
    """

    works_at_2: bool
    reason: str = ""
    skipped: tuple[str, ...] = ()
    runs: Sequence[Ran] = ()


def check_batch(model: Model, feeds: Mapping[str, Array]) -> BatchFinding:
    """Runs two samples one after the other and as a batch, and compares.

    Args:
        model: Its inputs say, by the symbol ``batch``, which of their dimensions it is.
        feeds: One sample by input name (a batch of 1); the second is made from it.

    Raises:
        RefusedModel: The model doesn't run on ``feeds`` at all.
    """
    axes = {spec.name: axis for spec in model.inputs if (axis := _batch_axis(spec)) is not None}
    if not axes:
        return BatchFinding(False, "no input has a batch dimension")
    feeds = {name: _telling(array) for name, array in feeds.items()}
    first = {name: _slice(array, axes.get(name)) for name, array in feeds.items()}
    second = {name: _other(array) if name in axes else array for name, array in first.items()}
    both = {
        name: np.concatenate([first[name], second[name]], axes[name])
        if name in axes
        else first[name]
        for name in first
    }
    session = OrtSession(model.graph, plain=True)
    try:
        alone = [session.run(first), session.run(second)]
    except ModelError as error:
        raise RefusedModel(error.message) from error
    try:
        together = session.run(both)
    except ModelError as error:
        return BatchFinding(False, error.message)
    finally:
        session.close()
    finding = compare(model, alone, together)
    runs = zip((first, second, both), (*alone, together), strict=True)
    return replace(finding, runs=tuple(runs))


def _telling(array: Array) -> Array:
    """The array; noise around it where it is silence or a black image.

    On a constant no sample can be told from another, and rounding may decide what comes out.
    """
    if array.dtype.kind != "f" or array.size < 2 or not (array == array.flat[0]).all():
        return array
    noise = np.random.default_rng(0).standard_normal(array.shape)
    spread = 0.1 * (abs(float(array.flat[0])) or 1.0)
    noisy: Array = (array + spread * noise).astype(array.dtype)
    return noisy


def _batch_axis(spec: TensorSpec) -> int | None:
    return spec.shape.index(BATCH) if spec.shape and BATCH in spec.shape else None


def _slice(array: Array, axis: int | None) -> Array:
    return array if axis is None else np.take(array, [0], axis)


def _other(array: Array) -> Array:
    """Another sample of the same kind: the same elements elsewhere, floats halved too."""
    flipped = np.flip(array)
    return flipped * array.dtype.type(0.5) if array.dtype.kind == "f" else flipped


def compare(
    model: Model, alone: Sequence[Mapping[str, Array]], together: Mapping[str, Array]
) -> BatchFinding:
    """Compares what two samples gave one after the other with what they gave as a batch.

    Args:
        model: Its outputs say which dimension the batch is, or the one that grew is.
        alone: All outputs of each sample by name, batches of 1.
        together: All outputs of the two as a batch, by name.
    """
    coarse = any(node.op_type in _BATCH_WIDE_SCALES for node in model.nodes())
    tolerance = _COARSE if coarse else _TOLERANCE
    skipped = []
    ranges = output_ranges(model.graph)
    for spec in model.outputs:
        low, high = ranges.get(spec.name, (0.0, 0.0))
        one, other, both = alone[0][spec.name], alone[1][spec.name], together[spec.name]
        axis = _batch_axis(spec)
        if axis is None:
            axis = _growing_axis(one, both)
        if axis is None:
            skipped.append(spec.name)
            continue
        if one.ndim <= axis or both.ndim != one.ndim or one.shape[axis] != 1:
            return BatchFinding(False, f"output {spec.name} has the shape {both.shape}")
        stacked = _stack(one, other, axis)
        if stacked is None:
            skipped.append(spec.name)
        elif stacked.shape != both.shape:
            return BatchFinding(
                False, f"output {spec.name} has the shape {both.shape}, not {stacked.shape}"
            )
        elif not _close(stacked, both, tolerance, ROUNDING * max(-low, high)):
            return BatchFinding(
                False, f"output {spec.name} of a sample depends on what it is batched with"
            )
    return BatchFinding(True, skipped=tuple(skipped))


def _growing_axis(one: Array, both: Array) -> int | None:
    """The only axis that went from 1 to 2."""
    if one.ndim != both.ndim:
        return None
    pairs = list(zip(one.shape, both.shape, strict=True))
    changed = [axis for axis, (before, after) in enumerate(pairs) if before != after]
    return changed[0] if len(changed) == 1 and pairs[changed[0]] == (1, 2) else None


def _stack(one: Array, other: Array, axis: int) -> Array | None:
    """Both along ``axis``; None where their other dimensions depend on their contents."""
    if np.delete(one.shape, axis).tolist() != np.delete(other.shape, axis).tolist():
        return None
    return np.concatenate([one, other], axis)


def _close(expected: Array, found: Array, tolerance: float, rounding: float) -> bool:
    if expected.dtype.kind not in "fc":
        return bool((expected == found).mean() >= 1 - tolerance) if expected.size else True
    wide, other = expected.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(wide) & np.isfinite(other)
    if not (np.isfinite(wide) == np.isfinite(other)).all():
        return False
    if not finite.any():
        return True
    scale = float(np.abs(wide[finite]).max())
    allowed = max(tolerance * max(scale, 1e-6), rounding)
    return bool(np.abs(wide - other)[finite].max() <= allowed)
