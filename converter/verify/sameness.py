"""Whether two graphs are the same to a machine: names, nodes, weights, not what people read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx
import onnx_ir

from converter.ir.edit import same_tensor
from converter.ir.weightless import without_weights

SHAPE_ONLY_ABOVE = 4096
"""Bytes of a weight above which it is compared apart from the graph, without being copied."""


@dataclass(frozen=True)
class Looks:
    """What tells two graphs apart, without what only people read."""

    structure: bytes
    shapes: bytes
    weights: Mapping[str, onnx_ir.TensorProtocol]

    @classmethod
    def of(cls, graph: onnx_ir.Model) -> Looks:
        heavy: dict[str, onnx_ir.TensorProtocol] = {}
        for body in graph.graphs():
            for name, value in body.initializers.items():
                if value.const_value is not None and value.const_value.nbytes >= SHAPE_ONLY_ABOVE:
                    heavy[f"{body.name}/{name}"] = value.const_value
        light, _ = without_weights(graph, SHAPE_ONLY_ABOVE)
        proto = onnx_ir.to_proto(light)
        infos = [_strip(body) for body in (proto.graph, *proto.functions)]
        del proto.metadata_props[:]
        structure = proto.SerializeToString(deterministic=True)
        return cls(structure, b"".join(sorted(b"".join(sorted(i)) for i in infos)), heavy)

    def same(self, other: Looks, shapes_count: bool) -> bool:
        """Whether the graphs are the same; inner shapes only where they count."""
        if self.structure != other.structure or self.weights.keys() != other.weights.keys():
            return False
        if shapes_count and self.shapes != other.shapes:
            return False
        return all(
            same_tensor(tensor, other.weights[name]) for name, tensor in self.weights.items()
        )


def _strip(body: Any) -> list[bytes]:
    """Takes documentation, metadata and inner shapes off a graph or function, sorts its
    initializers; returns the inner shapes."""
    infos = [info.SerializeToString(deterministic=True) for info in body.value_info]
    del body.value_info[:]
    del body.metadata_props[:]
    body.ClearField("doc_string")
    if isinstance(body, onnx.GraphProto):
        ordered = sorted(body.initializer, key=lambda tensor: tensor.name)
        del body.initializer[:]
        body.initializer.extend(ordered)
    for node in body.node:
        node.ClearField("doc_string")
        del node.metadata_props[:]
        for attribute in node.attribute:
            for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                infos += _strip(graph)
    return infos
