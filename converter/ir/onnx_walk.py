"""Walks over an ONNX file's nodes and graphs, bodies included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """The nodes, and those of their bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for body in attribute_graphs(attribute):
                yield from all_nodes(body.node)


def attribute_graphs(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    """The bodies that an attribute holds."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def all_graphs(proto: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph, and every body in it and in functions."""
    yield proto.graph
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    for body in bodies:
        for node in all_nodes(body):
            for attribute in node.attribute:
                yield from attribute_graphs(attribute)
