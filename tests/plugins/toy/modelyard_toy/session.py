"""Layers that run here: the toy's own runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from converter.ir.model import BATCH, TensorSpec
from converter.runtime.session import Timing
from modelyard_toy.child import layers
from parsers.worker.timing import measure


class LayersSession:
    """Layers, run by numpy; see :class:`converter.runtime.session.Session`."""

    def __init__(self, model: Sequence[layers.Layer]) -> None:
        self._layers = list(model)
        self.inputs = (TensorSpec("x", "float32", (BATCH, int(model[0][0].shape[0]))),)
        self.outputs = (TensorSpec("y", "float32", (BATCH, int(model[-1][0].shape[1]))),)
        self.runtime = {"name": "toy", "version": np.__version__, "threads": 1}

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        (x,) = feeds.values()
        return {self.outputs[0].name: layers.run(self._layers, x)}

    def time(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], runs: int, concurrency: int = 1
    ) -> Timing:
        found: Any = measure(lambda: self.run(feeds), runs * concurrency, concurrency)
        return Timing(tuple(found["ns"]), found["total_ns"])

    def close(self) -> None:
        """There is nothing to give back."""
