"""Free dimensions as Core ML has them: a smallest, largest and usual size of each."""

from __future__ import annotations

from typing import Any

from converter.coreml_file import coremltools
from emitters.coreml.interface import Port

_NUMPY = {"float32": "float32", "float16": "float16", "int32": "int32"}


def input_types(inputs: list[Port]) -> list[Any]:
    """coremltools' types of the inputs: free dimensions are ranges from 1 on."""
    library = coremltools()
    ranges: dict[str, Any] = {}
    made = []
    for port in inputs:
        shape: list[Any] = []
        for dim in port.spec.shape or (1,):
            if isinstance(dim, str):
                if dim not in ranges:
                    ranges[dim] = library.RangeDim(1, -1, default=1, symbol=None)
                shape.append(ranges[dim])
            else:
                shape.append(dim)
        import numpy as np

        made.append(
            library.TensorType(
                name=port.name, shape=library.Shape(shape), dtype=np.dtype(_NUMPY[port.dtype]).type
            )
        )
    return made
