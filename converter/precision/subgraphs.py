"""Bodies of If and Loop as models of their own, so that what holds for a model holds for them.

    Given:   y = If(c)[then: z = Conv(x, w)]           x computed outside, w a weight outside
    Result:  z = Conv(x, w), a model with the input x and the weight w

Ranges are measured in such a model, Q and DQ put into it, its weights rounded; then it goes back
into its place. What a body reads from outside is quantized inside, so that the kernel that wants
integers finds Q and DQ next to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir

from converter.ir.edit import is_constant, is_op
from converter.ir.facts import WEIGHTED
from converter.ir.model import IR_VERSION, Model

OPENED = frozenset({"If", "Loop"})
"""Operators whose bodies are lowered. A Scan's stay in float32."""


@dataclass(frozen=True)
class Body:
    """A body, taken out of its place.

    Attributes:
        node: The If or Loop that it belongs to.
        branch: The attribute that holds it.
        model: The body; its inputs are its own, then what it reads from outside.
        outside: What it reads from outside, and its weights from outside, by the value that
            stands for it in ``model``.
    """

    node: onnx_ir.Node
    branch: str
    model: Model
    outside: dict[onnx_ir.Value, onnx_ir.Value]

    def put_back(self) -> None:
        """Ties the body to what is outside again; weights that nothing uses any more go."""
        graph = self.model.graph.graph
        for inner, outer in self.outside.items():
            if inner.name in graph.initializers:
                if inner.const_value is not outer.const_value:
                    continue  # it was changed, and is the body's own now
                graph.initializers.pop(inner.name or "")
            elif inner in graph.inputs:
                graph.inputs.remove(inner)
            _substitute(graph, inner, outer)
        for outer in self.outside.values():
            _drop_unused(outer)


def bodies(graph: onnx_ir.Graph) -> Iterator[tuple[onnx_ir.Node, str]]:
    """The bodies of a graph's own nodes that can be taken out and hold something heavy, each by
    its node and attribute; those within are found in them."""
    for node in graph:
        if not is_op(node, *OPENED):
            continue
        for name, attribute in node.attributes.items():
            if attribute.type == onnx_ir.AttributeType.GRAPH and not attribute.is_ref():
                body = attribute.as_graph()
                if _is_heavy(body) and all(_is_tensor(value) for value in _read(node, body)):
                    yield node, name


def take_out(node: onnx_ir.Node, branch: str) -> Body:
    """Makes a model of a body, in place: until it is put back, the node's own model isn't valid."""
    return _opened(node, branch, node.attributes[branch].as_graph())


def copy_of(node: onnx_ir.Node, branch: str) -> Body:
    """As :func:`take_out`, with a copy of the body; weights are shared. It can't be put back."""
    return _opened(node, branch, node.attributes[branch].as_graph().clone(True))


def closed(model: Model) -> Iterator[onnx_ir.Node]:
    """Nodes in bodies that aren't taken out."""
    opened = {id(node.attributes[name].as_graph()) for node, name in bodies(model.graph.graph)}
    for node in model.graph.graph:
        for graph in _graphs(node):
            if id(graph) not in opened:
                yield from onnx_ir.traversal.RecursiveGraphIterator(graph)


def _opened(node: onnx_ir.Node, branch: str, graph: onnx_ir.Graph) -> Body:
    _type_inputs(node, graph)
    outside: dict[onnx_ir.Value, onnx_ir.Value] = {}
    for outer in _from_outside(graph):
        inner = onnx_ir.Value(name=outer.name, type=outer.type, shape=outer.shape)
        if is_constant(outer):
            inner.const_value = outer.const_value
            graph.register_initializer(inner)
        else:
            graph.inputs.append(inner)
        _substitute(graph, outer, inner)
        outside[inner] = outer
    if node.graph is not None:
        graph.opset_imports.update(node.graph.opset_imports)
    return Body(node, branch, Model(onnx_ir.Model(graph, ir_version=IR_VERSION)), outside)


def _type_inputs(node: onnx_ir.Node, graph: onnx_ir.Graph) -> None:
    """Types of a Loop's own inputs, which needn't be declared; their shapes may change."""
    if not is_op(node, "Loop"):
        return
    kinds = [onnx_ir.TensorType(onnx_ir.DataType.INT64), onnx_ir.TensorType(onnx_ir.DataType.BOOL)]
    given = [*kinds, *(value.type if value is not None else None for value in node.inputs[2:])]
    for value, kind in zip(graph.inputs, given, strict=True):
        value.type = value.type or kind


def _from_outside(graph: onnx_ir.Graph) -> list[onnx_ir.Value]:
    """The values that a graph and the graphs in it use, and that none of them makes."""
    inside: set[onnx_ir.Value] = set()
    used: dict[onnx_ir.Value, None] = {}
    for each in _all_graphs(graph):
        inside.update(each.inputs, each.initializers.values())
        for node in each:
            inside.update(node.outputs)
            used |= dict.fromkeys(value for value in node.inputs if value is not None)
        used |= dict.fromkeys(each.outputs)
    return [value for value in used if value not in inside]


def _substitute(graph: onnx_ir.Graph, old: onnx_ir.Value, new: onnx_ir.Value) -> None:
    """Lets everything in a graph, and in the graphs in it, use another value."""
    for each in _all_graphs(graph):
        for node in each:
            for index, value in enumerate(node.inputs):
                if value is old:
                    node.replace_input_with(index, new)
        for index, value in enumerate(each.outputs):
            if value is old:
                each.outputs[index] = new


def _drop_unused(value: onnx_ir.Value) -> None:
    if value.is_initializer() and not value.is_graph_output() and not value.is_graph_input():
        graph = value.graph
        if graph is not None and not value.uses():
            graph.initializers.pop(value.name or "", None)


def _read(node: onnx_ir.Node, graph: onnx_ir.Graph) -> list[onnx_ir.Value]:
    given = [value for value in node.inputs if value is not None]
    return [*given, *_from_outside(graph)]


def _is_tensor(value: onnx_ir.Value) -> bool:
    """Whether it is a tensor, and no sequence of tensors or optional one."""
    return value.type is None or isinstance(value.type, onnx_ir.TensorType)


def _is_heavy(graph: onnx_ir.Graph) -> bool:
    return any(is_op(node, *WEIGHTED) for node in onnx_ir.traversal.RecursiveGraphIterator(graph))


def _all_graphs(graph: onnx_ir.Graph) -> Iterator[onnx_ir.Graph]:
    yield graph
    for node in graph:
        for inner in _graphs(node):
            yield from _all_graphs(inner)


def _graphs(node: onnx_ir.Node) -> Iterator[onnx_ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == onnx_ir.AttributeType.GRAPH and not attribute.is_ref():
            yield attribute.as_graph()
