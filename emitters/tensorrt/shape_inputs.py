"""Inputs whose values decide shapes, which TensorRT calls shape tensors, and their ranges.

An optimization profile holds the smallest, best and largest values of each, as it does shapes of
the others (``IOptimizationProfile::setShapeValues``); they are those of the samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.model import Model

DECIDES: Mapping[str, Sequence[int]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2),
    "Resize": (3,), "Slice": (1, 2, 4), "Pad": (1,), "TopK": (1,), "OneHot": (1,), "Split": (1,),
    "CenterCropPad": (1,), "Col2Im": (1, 2), "Loop": (0,),
}  # fmt: skip
"""The operands of ONNX's operators whose values say how large an output is."""

MOST = 64
"""Elements of an input that is taken for sizes."""

Values = Mapping[str, tuple[list[int], list[int], list[int]]]
"""For each such input its smallest, its best and its largest values, element by element."""


def shape_inputs(model: Model) -> list[str]:
    """The inputs whose values reach an operand that decides a shape: integers, of one axis of known
    size or of none."""
    sized = {
        spec.name
        for spec in model.inputs
        if spec.dtype in ("int32", "int64") and spec.shape is not None and len(spec.shape) < 2
        and all(isinstance(size, int) and size <= MOST for size in spec.shape)
    }  # fmt: skip
    if not sized:
        return []
    waiting = [
        value
        for node in model.graph.graph.all_nodes()
        for place in DECIDES.get(node.op_type, ())
        if place < len(node.inputs) and (value := node.inputs[place]) is not None
    ]
    seen: set[onnx_ir.Value] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        node = value.producer()
        if node is not None and node.op_type not in ("Shape", "Size"):  # these read no values
            waiting += [item for item in node.inputs if item is not None]
    names = {value.name for value in seen}
    return [spec.name for spec in model.inputs if spec.name in sized & names]


def values_seen(samples: Iterable[Mapping[str, Any]], names: Sequence[str]) -> Values:
    """The smallest and the largest of each element; the best are the values of one sample, of those
    in order of their products the middle one.

    Args:
        samples: The arrays of each, by the inputs' names.
        names: The inputs to look at.
    """
    rows = [[np.ravel(feeds[name]) for name in names] for feeds in samples] if names else []
    found = {}
    for name, arrays in zip(names, zip(*rows, strict=True), strict=False):
        best = sorted(arrays, key=np.prod)[len(arrays) // 2]
        seen = np.stack(arrays)
        found[name] = (seen.min(0).tolist(), best.tolist(), seen.max(0).tolist())
    return found
