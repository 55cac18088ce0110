"""Which inputs of a graph are indices, and of how many entries."""

from __future__ import annotations

import onnx_ir

from converter.ir.facts import MOVES

_THROUGH = MOVES | {"Cast"}
"""Operators that hand indices on: elements of the first input and nothing else."""

_INDEXED = {
    "Gather": 1, "GatherElements": 1, "ScatterElements": 1, "GatherND": 1, "ScatterND": 1,
}  # fmt: skip
"""Operators that take indices, and as which input."""


def entries_of(graph: onnx_ir.Graph) -> dict[str, int]:
    """For each integer input that is used as an index, of how many entries: the fewest of all that
    it indexes.

    Only axes of known sizes count; of GatherND and ScatterND, whose indices are tuples, the
    shortest axis.
    """
    found: dict[str, int] = {}
    for given in graph.inputs:
        name = given.name or ""
        if (
            name not in graph.initializers
            and _is_integer(given)
            and (sizes := _sizes(given, set()))
        ):
            found[name] = min(sizes)
    return found


def _is_integer(value: onnx_ir.Value) -> bool:
    return value.dtype in (onnx_ir.DataType.INT32, onnx_ir.DataType.INT64)


def _sizes(value: onnx_ir.Value, seen: set[onnx_ir.Value]) -> list[int]:
    if value in seen:
        return []
    seen.add(value)
    sizes = []
    for node, at in value.uses():
        if _INDEXED.get(node.op_type) == at:
            sizes += _entries(node)
        elif node.op_type in _THROUGH and at == 0:
            for output in node.outputs:
                sizes += _sizes(output, seen)
    return sizes


def _entries(node: onnx_ir.Node) -> list[int]:
    data = node.inputs[0]
    if data is None:
        return []
    known = data.const_value.shape if data.const_value is not None else data.shape
    sizes = list(known or ())
    if not node.op_type.endswith("ND"):
        axis = node.attributes.get_int("axis", 0) or 0
        sizes = sizes[axis:][:1]
    numbers = [size for size in sizes if isinstance(size, int)]
    return [min(numbers)] if numbers and len(numbers) == len(sizes) else []
