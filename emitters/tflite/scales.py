"""Says of integers that were only moved what they stand for: as those did that they were moved
from, or as those do that they are moved to.

    Given:   a int8 -> Reshape -> b int8 with a scale       Result:   a has that scale too
LiteRT's kernels that move integers ask for equal scales, and those that compute ask for one.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir

from converter.ir.edit import all_nodes
from converter.ir.facts import MOVES
from emitters.tflite.context import QUANT
from emitters.tflite.graph import Quant

FIRST_MOVED = MOVES | {"MaxPool", "Pad"}
"""Operators that move their first input's elements."""

ALL_MOVED = frozenset({"Concat"})
"""Operators that move those of all inputs."""

_STORED = (onnx_ir.DataType.INT8, onnx_ir.DataType.UINT8, onnx_ir.DataType.INT16)


def spread_scales(model: onnx_ir.Model) -> None:
    """Changes the values' ``meta``; where two scales meet, each keeps its own."""
    links: dict[onnx_ir.Value, list[onnx_ir.Value]] = {}
    for node in all_nodes(model):
        first, *others = _moved(node)
        for value in others:
            links.setdefault(first, []).append(value)
            links.setdefault(value, []).append(first)
    ready = [value for value in links if QUANT in value.meta]
    while ready:
        value = ready.pop()
        quant: Quant = value.meta[QUANT]
        if quant.axis is not None:
            continue
        for other in links[value]:
            if QUANT not in other.meta and other.dtype == value.dtype:
                other.meta[QUANT] = quant
                ready.append(other)


def _moved(node: onnx_ir.Node) -> Iterator[onnx_ir.Value]:
    """The values of stored integers whose elements are the same."""
    if node.op_type in ALL_MOVED:
        inputs = list(node.inputs)
    elif node.op_type in FIRST_MOVED:
        inputs = list(node.inputs[:1])
    else:
        inputs = []
    found = [*inputs, *(node.outputs if inputs else ())]
    yield from [v for v in found if v is not None and v.dtype in _STORED] or [node.outputs[0]]
