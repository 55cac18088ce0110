"""Ranges for tests: the smallest and largest value of every activation, all kept in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.ort import OrtSession


class Measured:
    """The limits of activations by name; the method is always ``minmax``."""

    nonfinite: Mapping[str, tuple[int, str]] = {}

    def __init__(self, ranges: Mapping[str, tuple[float, float]]) -> None:
        self.ranges = dict(ranges)

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors that were measured."""
        return tuple(self.ranges)

    def limits(
        self, name: str, method: str = "minmax", *, symmetric: bool = False
    ) -> tuple[float, float]:
        """Smallest and largest value."""
        assert method == "minmax"
        return self.ranges[name]


def measure(
    proto: onnx.ModelProto, feeds: Sequence[Mapping[str, np.ndarray[Any, Any]]]
) -> Measured:
    """Runs a model with all its float activations as outputs."""
    model = onnx.ModelProto()
    model.CopyFrom(onnx.shape_inference.infer_shapes(proto))
    floats = [
        value
        for value in model.graph.value_info
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    ]
    model.graph.output.extend(floats)
    session = OrtSession(onnx_ir.from_proto(model), plain=True)
    ranges: dict[str, tuple[float, float]] = {}
    for item in feeds:
        for name, array in {**session.run(item), **item}.items():
            low, high = ranges.get(name, (np.inf, -np.inf))
            if array.dtype.kind == "f":
                ranges[name] = min(low, float(array.min())), max(high, float(array.max()))
    return Measured(ranges)
