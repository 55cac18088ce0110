"""Which outputs of a graph depend on no input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir


def constant_outputs(graph: onnx_ir.Graph) -> list[str]:
    """The names of the outputs that no input's values reach: they hold the same whatever is fed.

    The sizes of a tensor whose shape is fixed say nothing of its values.
    """
    reached = {value for value in graph.inputs if value.name not in graph.initializers}
    _spread(graph, reached)
    return [value.name for value in graph.outputs if value.name and value not in reached]


def integral_outputs(graph: onnx_ir.Graph) -> list[str]:
    """The names of the outputs that no float leads to: neither an input nor a weight, nor one on
    the way."""
    values = [*graph.inputs, *graph.initializers.values()]
    reached = {value for value in values if _is_float(value)}
    for node in graph:
        if any(_is_float(value) for value in node.outputs) or any(
            value in reached for value in taken(node)
        ):
            reached.update(node.outputs)
    return [value.name for value in graph.outputs if value.name and value not in reached]


def _is_float(value: onnx_ir.Value) -> bool:
    """Whether a value is a float, as far as that is known."""
    return value.dtype is None or value.dtype.is_floating_point()


def _spread(nodes: Iterable[onnx_ir.Node], reached: set[onnx_ir.Value]) -> None:
    """Adds what values of ``reached`` have a part in; ``nodes`` in the order they run."""
    for node in nodes:
        if any(value in reached for value in taken(node)):
            reached.update(node.outputs)


def taken(node: onnx_ir.Node) -> Iterator[onnx_ir.Value]:
    """The node's inputs, those of the nodes inside it, and what the graphs inside give."""
    for value in node.inputs:
        if value is not None and not (node.op_type == "Shape" and _is_fixed(value)):
            yield value
    for attribute in node.attributes.values():
        for inside in graphs_in(attribute):
            yield from inside.outputs
            for inner in inside:
                yield from taken(inner)


def graphs_in(attribute: onnx_ir.Attr) -> list[onnx_ir.Graph]:
    """The graphs that an attribute holds."""
    if attribute.type == onnx_ir.AttributeType.GRAPH:
        return [attribute.as_graph()]
    if attribute.type == onnx_ir.AttributeType.GRAPHS:
        return list(attribute.as_graphs())
    return []


def _is_fixed(value: onnx_ir.Value) -> bool:
    return value.shape is not None and all(isinstance(size, int) for size in value.shape)
