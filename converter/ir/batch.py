"""Fixes or frees the batch dimension of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir

from converter.errors import ModelError
from converter.ir.edit import integers
from converter.ir.inference import infer
from converter.ir.model import BATCH, Model
from converter.ir.symbols import free_inputs, set_dimension, substitute, symbols_of


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
        raise ModelError(
            "no input has a fixed batch dimension that could be freed", code="batch-fixed"
        )
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
