"""Ranges for small models, measured on one set of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir

from converter.ir import Model
from converter.ort import OrtSession


class Seen:
    """Ranges of tensors that are known as a whole."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        kept = {k: v for k, v in arrays.items() if isinstance(v, np.ndarray)}
        self._arrays = {k: v for k, v in kept.items() if v.dtype.kind in "fiu"}
        self.names = tuple(self._arrays)

    def extremes(self, name: str) -> tuple[float, float]:
        array = self._arrays[name]
        finite = array[np.isfinite(array)]
        return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def measured_on(model: Model, feeds: Mapping[str, np.ndarray[Any, Any]]) -> Seen:
    """The ranges of a small model's tensors on one set of inputs."""
    tapped = model.copy()
    made = [v for node in tapped.graph.graph for v in node.outputs if v.name]
    tapped.graph.graph.outputs.clear()
    for value in made:
        value.shape = None
        if isinstance(value.type, onnx_ir.TensorType):
            tapped.graph.graph.outputs.append(value)
    copies = {name: array.copy() for name, array in feeds.items()}
    found = OrtSession(tapped.graph, plain=True).run(copies)
    return Seen({**feeds, **found})
