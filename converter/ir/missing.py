"""Inputs of a graph in which NaN is a value: what is missing from a table."""

from __future__ import annotations

import onnx_ir

HANDLE_NAN = frozenset({
    "IsInf", "IsNaN", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "Imputer",
})  # fmt: skip
"""Operators that are there for NaN or infinity, and trees, which send NaN one way."""

_MOVE = frozenset({
    "ArrayFeatureExtractor", "Cast", "Concat", "FeatureVectorizer", "Flatten", "Gather", "Identity",
    "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
"""Operators that leave values as they are."""


def places_of_missing(graph: onnx_ir.Graph) -> dict[str, tuple[int, ...]]:
    """The places of the last dimension in which NaN is a value, by input: all of them, where what
    takes the input is there for NaN. Inputs whose last dimension is free aren't among them."""
    found: dict[str, tuple[int, ...]] = {}
    for value in graph.inputs:
        last = value.shape[-1] if value.shape is not None and len(value.shape) else None
        floats = value.dtype is not None and value.dtype.is_floating_point()
        if isinstance(last, int) and floats and value.uses() and _handled(value):
            found[value.name or ""] = tuple(range(last))
    return found


def _handled(value: onnx_ir.Value) -> bool:
    """Whether all that takes a value's numbers, moved or not, is there for NaN."""
    waiting, seen = [value], set[onnx_ir.Value]()
    while waiting:
        moved = waiting.pop()
        if moved in seen:
            continue
        seen.add(moved)
        if moved.is_graph_output():
            return False
        for use in moved.uses():
            if use.node.op_type in _MOVE:
                waiting += use.node.outputs
            elif use.node.op_type not in HANDLE_NAN and not _fills(use.node):
                return False
    return True


def _fills(node: onnx_ir.Node) -> bool:
    """Whether a node puts something else where a value is NaN."""
    asked = node.inputs[0] if node.op_type == "Where" else None
    maker = asked.producer() if asked is not None else None
    return maker is not None and maker.op_type == "IsNaN"
