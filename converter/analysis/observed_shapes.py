"""Shapes that inference doesn't find, seen in a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.analysis.intermediate_outputs import chunked, fed_tensors, open_tapped
from converter.errors import ModelError
from converter.ir.model import Model, dtype_from_name
from converter.ir.weight_placeholders import without_weights

HEAVY = 1 << 16
"""Bytes of a weight from which zeros stand for it."""


def observed_shapes(
    model: Model, sizes: Mapping[str, int], names: Collection[str]
) -> dict[str, tuple[int, ...]]:
    """The shapes of inner tensors when the model is run on zeros, with zeros for large weights:
    to copy those into a session takes longer than the run.

    ONNX's shape inference gives up on a Slice by a computed length, and then on every sum of its
    result with something of size 1.

    Args:
        model: Not changed.
        sizes: Of the symbolic dimensions by name; 1 for those it lacks.
        names: Which tensors; those that aren't computed from inputs are left out.

    Returns:
        Shapes by name; empty where the model can't be run on zeros.
    """
    feeds = {}
    for spec in model.inputs:
        if spec.shape is None or spec.dtype == "string":
            return {}
        shape = spec.sized({**dict.fromkeys(model.symbols, 1), **sizes})
        if any(dim < 0 for dim in shape):
            return {}
        feeds[spec.name] = np.zeros(shape, dtype_from_name(spec.dtype).numpy())
    wanted = [value.name or "" for value in fed_tensors(model.graph) if value.name in names]
    light, _ = without_weights(model.graph, HEAVY)
    feeds |= _zeros(light.graph.inputs[len(model.graph.graph.inputs) :])
    found: dict[str, tuple[int, ...]] = {}
    try:
        for piece in chunked(light, wanted):
            session = open_tapped(light, piece)
            found |= {name: tensor.shape for name, tensor in session.run(feeds).items()}
            session.close()
    except ModelError:  # a rate or an index of 0 may be refused: no shape is known then
        return {}
    return found


def _zeros(values: Sequence[onnx_ir.Value]) -> dict[str, np.ndarray[Any, Any]]:
    """Zeros for weights, which take no memory until somebody writes to them."""
    return {
        value.name or "": np.zeros(value.shape.numpy(), value.dtype.numpy())
        for value in values
        if value.shape is not None and value.dtype is not None
    }
