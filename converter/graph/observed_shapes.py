"""Shapes that inference doesn't find, seen in a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from converter.errors import ModelError
from converter.graph.taps import chunked, fed_tensors, open_tapped
from converter.ir import Model, dtype_from_name


def observed_shapes(
    model: Model, sizes: Mapping[str, int], names: Collection[str]
) -> dict[str, tuple[int, ...]]:
    """The shapes of inner tensors when the model is run on zeros.

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
    found: dict[str, tuple[int, ...]] = {}
    try:
        for piece in chunked(model.graph, wanted):
            session = open_tapped(model.graph, piece)
            found |= {name: tensor.shape for name, tensor in session.run(feeds).items()}
            session.close()
    except ModelError:  # a rate or an index of 0 may be refused: no shape is known then
        return {}
    return found
