"""Whether two graphs are the same to a machine: names, nodes, weights, not what people read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import onnx_ir

from converter.errors import ModelError
from converter.ir.edit import same_tensor

HELD_ABOVE = 4096
"""Bytes of a tensor above which it is compared where it lies, without being copied."""

_TYPE = onnx_ir.AttributeType


@dataclass(frozen=True)
class Looks:
    """What tells two graphs apart, without what only people read.

    Attributes:
        structure: All but the following, as tuples.
        shapes: Types and shapes of what nodes give.
        tensors: Those that are too large to be in ``structure``, in its order.
    """

    structure: object
    shapes: object
    tensors: list[onnx_ir.TensorProtocol]

    @classmethod
    def of(cls, graph: onnx_ir.Model) -> Looks:
        """Goes over a graph once.

        Raises:
            ModelError: A node takes what no node before it gives.
        """
        seen = _Seen()
        functions = [
            (key, seen.function(function)) for key, function in sorted(graph.functions.items())
        ]
        head = graph.ir_version, sorted(graph.opset_imports.items())
        structure = head, seen.graph(graph.graph), functions
        return cls(structure, sorted(seen.shapes), seen.tensors)

    def same(self, other: Looks, shapes_count: bool) -> bool:
        """Whether the graphs are the same; inner shapes only where they count."""
        if self.structure != other.structure or (shapes_count and self.shapes != other.shapes):
            return False
        return all(map(same_tensor, self.tensors, other.tensors))


@dataclass
class _Seen:
    shapes: list[tuple[str, str]] = field(default_factory=list)
    tensors: list[onnx_ir.TensorProtocol] = field(default_factory=list)
    given: set[onnx_ir.Value] = field(default_factory=set)

    def graph(self, graph: onnx_ir.Graph) -> object:
        self.given.update(graph.inputs, graph.initializers.values())
        weights = sorted(graph.initializers.items())
        return (
            graph.name,
            [(value.name, _typed(value)) for value in (*graph.inputs, *graph.outputs)],
            len(graph.inputs),
            [
                (name, value.const_value and self.tensor(value.const_value))
                for name, value in weights
            ],
            [self.node(node) for node in graph],
        )

    def function(self, function: onnx_ir.Function) -> object:
        self.given.update(function.inputs)
        return (
            [value.name for value in (*function.inputs, *function.outputs)],
            len(function.inputs),
            self.attributes(function.attributes.values()),
            sorted(function.opset_imports.items()),
            [self.node(node) for node in function],
        )

    def node(self, node: onnx_ir.Node) -> object:
        for value in node.inputs:
            if value is not None and value not in self.given:
                raise ModelError(
                    f"{node.name} takes {value.name}, which no node before it gives",
                    code="model-invalid",
                )
        self.given.update(node.outputs)
        for value in node.outputs:
            if value.type is not None or value.shape is not None:
                self.shapes.append((value.name or "", _typed(value)))
        return (
            node.op_identifier(),
            node.name,
            [value and value.name for value in node.inputs],
            [value.name for value in node.outputs],
            self.attributes(node.attributes.values()),
        )

    def attributes(self, attributes: Iterable[onnx_ir.Attr]) -> object:
        by_name = sorted(attributes, key=lambda attribute: attribute.name)
        return [(item.name, item.type, item.ref_attr_name, self.content(item)) for item in by_name]

    def content(self, attribute: onnx_ir.Attr) -> object:
        value: Any = attribute.value
        if value is None or attribute.is_ref():
            return None
        if attribute.type == _TYPE.GRAPH:
            return self.graph(value)
        if attribute.type == _TYPE.GRAPHS:
            return [self.graph(graph) for graph in value]
        if attribute.type == _TYPE.TENSOR:
            return self.tensor(value)
        if attribute.type == _TYPE.TENSORS:
            return [self.tensor(tensor) for tensor in value]
        return repr(value)  # -0.0 isn't 0.0, and a NaN is itself

    def tensor(self, tensor: onnx_ir.TensorProtocol) -> object:
        kind = tensor.dtype, tuple(tensor.shape)
        if tensor.dtype == onnx_ir.DataType.STRING or tensor.nbytes >= HELD_ABOVE:
            self.tensors.append(tensor)
            return kind
        return *kind, tensor.tobytes()


def _typed(value: onnx_ir.Value) -> str:
    return f"{value.type} {value.shape}"
