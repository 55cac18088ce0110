"""Ranges for tests: the smallest and largest value of every tensor, by one run for each set of
inputs."""

from collections.abc import Mapping

import numpy as np
import onnx_ir

from converter.ir.model import Model
from converter.runtime.ort import OrtSession
from tests.passes.models import Array


class Measured:
    """The limits of tensors by name; the method is always ``minmax``."""

    nonfinite: Mapping[str, tuple[int, str]] = {}

    def __init__(self, ranges: Mapping[str, tuple[float, float]]) -> None:
        self.ranges = dict(ranges)

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors that were measured."""
        return tuple(self.ranges)

    def extremes(self, name: str) -> tuple[float, float]:
        """Smallest and largest finite value; 0 where there is none."""
        return self.ranges[name]

    def limits(
        self, name: str, method: str = "minmax", *, symmetric: bool = False
    ) -> tuple[float, float]:
        """The same."""
        assert method == "minmax"
        return self.ranges[name]


def measured_on(model: Model, *feeds: Mapping[str, Array]) -> Measured:
    """The ranges of a small model's inputs and of what nodes of its main graph give."""
    tapped = model.copy()
    made = [v for node in tapped.graph.graph for v in node.outputs if v.name]
    tapped.graph.graph.outputs.clear()
    for value in made:
        value.shape = None
        if isinstance(value.type, onnx_ir.TensorType):
            tapped.graph.graph.outputs.append(value)
    session = OrtSession(tapped.graph, plain=True)
    ranges: dict[str, tuple[float, float]] = {}
    for item in feeds:  # copies: some kernels of training write into their inputs
        found = session.run({name: array.copy() for name, array in item.items()})
        for name, array in {**item, **found}.items():
            if isinstance(array, np.ndarray) and array.dtype.kind in "fiu":
                finite = array[np.isfinite(array)]
                low, high = ranges.get(name, (np.inf, -np.inf))
                ends = (min(low, finite.min()), max(high, finite.max())) if finite.size else (0, 0)
                ranges[name] = float(ends[0]), float(ends[1])
    return Measured(ranges)
