"""What the subgraphs of a TFLite model do with resource variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from parsers.tflite.checks import called
from parsers.tflite.constants import DTYPES
from parsers.tflite.model import Array, Operator, Subgraph, Tensor, TfliteModel

Key = tuple[str, str]
"""A variable's container and shared name."""


@dataclass(frozen=True)
class Initial:
    """What a variable is before the first run; None for what is computed."""

    value: Array | None
    buffer: int | None


NOTHING = Initial(None, None)


def key_of(operator: Operator) -> Key:
    """Which variable a VAR_HANDLE names."""
    return _decoded(operator.options, "container"), _decoded(operator.options, "sharedName")


def _decoded(options: Any, attribute: str) -> str:
    value = getattr(options, attribute, None)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def initializers(model: TfliteModel) -> set[int]:
    """The subgraphs that CALL_ONCE runs."""
    return {
        callee
        for graph in model.subgraphs
        for operator in graph.operators
        if operator.name == "CALL_ONCE"
        for callee in called(operator)
    }


def _accesses(graph: Subgraph, name: str) -> Iterator[tuple[Key, Operator]]:
    """The READ_VARIABLE or ASSIGN_VARIABLE operators of a graph, with their variables."""
    handles = [op for op in graph.operators if op.name == "VAR_HANDLE" and op.outputs]
    keys = {op.outputs[0]: key_of(op) for op in handles}
    for operator in graph.operators:
        if operator.name == name and operator.inputs and operator.inputs[0] in keys:
            yield keys[operator.inputs[0]], operator


def initial_values(model: TfliteModel, source: Any, entries: set[int]) -> dict[Key, Initial]:
    """What subgraphs assign to variables.

    Args:
        model: The model.
        source: The same as ``schema.ModelT``.
        entries: The subgraphs' numbers.
    """
    found: dict[Key, Initial] = {}
    for index in sorted(entries):
        for key, operator in _accesses(model.subgraphs[index], "ASSIGN_VARIABLE"):
            number = operator.inputs[1] if len(operator.inputs) == 2 else -1
            value = model.subgraphs[index].tensors[number].data if number >= 0 else None
            buffer = source.subgraphs[index].tensors[number].buffer
            found[key] = NOTHING if value is None else Initial(value, buffer)
    return found


def assigned(model: TfliteModel, entries: set[int]) -> set[Key]:
    """The variables that runs change."""
    graphs = [graph for graph in model.subgraphs if graph.index not in entries]
    return {key for graph in graphs for key, _ in _accesses(graph, "ASSIGN_VARIABLE")}


def read_elsewhere(model: TfliteModel, subgraph: int) -> set[Key]:
    """The variables that other subgraphs read."""
    graphs = [graph for graph in model.subgraphs if graph.index != subgraph]
    return {key for graph in graphs for key, _ in _accesses(graph, "READ_VARIABLE")}


def only_assigns(graph: Subgraph) -> bool:
    """Whether all that a CALL_ONCE does is giving variables their values."""
    return not any(
        "HASHTABLE" in operator.name or operator.custom or operator.name == "CALL_ONCE"
        for operator in graph.operators
    )


def alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one type and shape."""
    return one.dtype == other.dtype and one.shape == other.shape


def same_scale(one: Tensor, other: Tensor) -> bool:
    """Whether the same stored numbers stand for the same real ones in both."""
    first, second = one.quantization, other.quantization
    if first is None or second is None:
        return first is second
    return bool(
        np.array_equal(first.scale, second.scale)
        and np.array_equal(first.zero_point, second.zero_point)
    )


def zeros(tensor: Tensor) -> Array | None:
    """What LiteRT sets variable tensors to: zero, in real terms."""
    if tensor.dtype not in DTYPES or -1 in tensor.shape:
        return None
    zero = 0 if tensor.quantization is None else int(tensor.quantization.zero_point[0])
    return np.full(tensor.shape, zero, DTYPES[tensor.dtype])
