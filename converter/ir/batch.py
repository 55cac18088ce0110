"""What the batch dimension of a model is worth: checked by running, fixed, or freed.

A file may call a dimension free, and still hold a Reshape to a fixed size, a state of one
sample, or a statistic over the whole batch. So two samples are run alone and together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir

from converter.errors import ModelError
from converter.ir.edit import integers
from converter.ir.inference import infer
from converter.ir.model import BATCH, Model, TensorSpec
from converter.ir.symbols import free_inputs, set_dimension, substitute, symbols_of
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
    """What two samples gave one after the other, beside what they gave as a batch.

    Args:
        model: Its outputs say which dimension the batch is, or the one that grew is.
        alone, together: By name, all of the model's outputs.
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


def fix_batch(model: Model, size: int) -> None:
    """Makes the symbolic batch ``size``, in inputs, outputs and everything between."""
    substitute(model.graph, {BATCH: size})
    _settle_outputs(model.graph)


def free_batch(model: Model, axes: Mapping[str, int] | None = None) -> list[str]:
    """Makes a fixed dimension of the inputs the symbolic batch.

    Inputs whose dimension is of another size stay as they are. Reshapes to a constant that
    starts with a fixed size take theirs from the data: exactly the same at the old batch.
    Whether the model then takes other batches, :func:`check_batch` finds out.

    Args:
        model: Changed in place.
        axes: Which dimension it is, by input name; the first of every input where left out.

    Returns:
        What was done, a line each.

    Raises:
        ModelError: No input has such a fixed dimension.
    """
    graph = model.graph
    at = dict(axes) if axes else {v.name or "": 0 for v in free_inputs(graph)}
    size = fixed_batch(model, at)
    if size is None:
        raise ModelError("no input has a fixed batch dimension that could be freed")
    before = infer(graph)
    changed = _free_reshapes(graph, size, before)
    for part in graph.graphs():
        for node in part:
            for value in node.outputs:
                if not value.is_graph_output():
                    value.shape = None
    at.update({v.name or "": 0 for v in graph.graph.outputs})
    for value in (*free_inputs(graph), *graph.graph.outputs):
        axis = at.get(value.name or "")
        if axis is not None and _dimension(value, axis) == size:
            set_dimension(value, axis, BATCH)
    _settle_outputs(graph)
    done = [f"the batch of {size} is free now"]
    if changed:
        done.append(f"{changed} Reshapes take the batch from their data")
    return done


def fixed_batch(model: Model, axes: Mapping[str, int] | None = None) -> int | None:
    """The size of the first fixed dimension that ``axes`` name, or of the first input's first
    (of those with two and more); None where there is none."""
    for value in free_inputs(model.graph):
        name = value.name or ""
        axis = axes.get(name) if axes is not None else 0
        if axis is None or value.shape is None or len(value.shape) < 2:
            continue
        dim = _dimension(value, axis)
        if isinstance(dim, int):
            return dim
    return None


def _dimension(value: onnx_ir.Value, axis: int) -> int | str | None:
    if value.shape is None or len(value.shape) <= axis:
        return None
    dim = value.shape[axis]
    return dim if isinstance(dim, int) else dim.value


def _free_reshapes(graph: onnx_ir.Model, size: int, known: Mapping[onnx_ir.Value, Any]) -> int:
    changed = 0
    for node in list(onnx_ir.traversal.RecursiveGraphIterator(graph.graph)):
        if node.op_type != "Reshape" or node.domain or len(node.inputs) != 2:
            continue
        target = integers(node.inputs[1])
        if not target or target[0] <= 0:
            continue
        if -1 not in target:
            target[0] = -1
        elif target[0] == size and _starts_with(node.inputs[0], size, known):
            target[0] = 0
        else:
            continue
        _set_target(node, target)
        changed += 1
    return changed


def _starts_with(
    value: onnx_ir.Value | None, size: int, known: Mapping[onnx_ir.Value, Any]
) -> bool:
    if value is None:
        return False
    shape = known[value].shape if value in known else value.shape
    return shape is not None and len(shape) > 0 and shape[0] == size


def _set_target(node: onnx_ir.Node, target: list[int]) -> None:
    constant = onnx_ir.Node(
        "", "Constant", [], [onnx_ir.AttrTensor("value", onnx_ir.tensor(np.array(target)))]
    )
    constant.outputs[0].name = f"{node.outputs[0].name}_shape"
    assert node.graph is not None
    node.graph.insert_before(node, constant)
    node.replace_input_with(1, constant.outputs[0])


def _settle_outputs(graph: onnx_ir.Model) -> None:
    """Gives dimensions of outputs that are unknown now what follows from the inputs."""
    if not any(name is None for v in graph.graph.outputs for _, name in symbols_of(v)):
        return
    found = infer(graph)
    for value in graph.graph.outputs:
        shape = found[value].shape if value in found else None
        if shape is None or value.shape is None or len(shape) != len(value.shape):
            continue
        for axis, name in symbols_of(value):
            if name is None:
                dim = shape[axis]
                set_dimension(value, axis, dim if isinstance(dim, int) else dim.value)
