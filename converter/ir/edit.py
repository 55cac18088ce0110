"""Small questions to a graph, and small edits, that several passes need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir

_PIECE = 1 << 20
READ_LIMIT = 4096
"""Elements above which a constant is not looked into."""


def all_nodes(model: onnx_ir.Model) -> Iterator[onnx_ir.Node]:
    """Every node of the main graph, its subgraphs and the functions, in a list made before."""
    bodies: list[onnx_ir.Graph | onnx_ir.Function] = [model.graph, *model.functions.values()]
    for body in bodies:
        yield from list(onnx_ir.traversal.RecursiveGraphIterator(body))


def is_op(node: onnx_ir.Node | None, *op_types: str) -> bool:
    """Whether ``node`` is one of these operators of the standard domain."""
    return node is not None and node.domain in ("", "ai.onnx") and node.op_type in op_types


def is_used(node: onnx_ir.Node, place: int) -> bool:
    """Whether an output is there, and used."""
    output = node.outputs[place] if place < len(node.outputs) else None
    return output is not None and bool(output.uses() or output.is_graph_output())


def count_of(model: onnx_ir.Model, op_type: str) -> int:
    """How many nodes of an operator there are, subgraphs and functions included."""
    return sum(is_op(node, op_type) for node in all_nodes(model))


def constant(value: onnx_ir.Value | None) -> np.ndarray[Any, Any] | None:
    """The elements of a small constant: an initializer that no caller may feed, or a Constant
    node's tensor; None for anything else, and for more than :data:`READ_LIMIT` elements."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.size > READ_LIMIT or tensor.dtype == onnx_ir.DataType.STRING:
        return None
    return tensor.numpy()


def constant_tensor(value: onnx_ir.Value | None) -> onnx_ir.TensorProtocol | None:
    """The tensor of a constant that no caller may feed, however large; None for anything else."""
    if value is None or value.is_graph_input():
        return None
    if value.is_initializer():
        return value.const_value
    node = value.producer()
    if node is None or not is_op(node, "Constant"):
        return None
    attribute = node.attributes.get("value")
    return None if attribute is None or attribute.is_ref() else attribute.as_tensor()


def is_constant(value: onnx_ir.Value | None) -> bool:
    """Whether a value is an initializer of numbers that no caller may feed."""
    return (
        value is not None
        and value.is_initializer()
        and not value.is_graph_input()
        and value.const_value is not None
        and value.dtype != onnx_ir.DataType.STRING
    )


def integers(value: onnx_ir.Value | None) -> list[int] | None:
    """The elements of a small integer constant, flat; None where it isn't one."""
    array = constant(value)
    if array is None or array.dtype.kind not in "iu":
        return None
    return [int(item) for item in array.ravel()]


def attribute_ints(node: onnx_ir.Node, name: str) -> list[int] | None:
    """An attribute's integers; None where it is missing or a function's parameter."""
    attribute = node.attributes.get(name)
    return None if attribute is None or attribute.is_ref() else list(attribute.as_ints())


def attribute_int(node: onnx_ir.Node, name: str, default: int) -> int | None:
    """An integer attribute of a node that may be in a function.

    Args:
        node: The node.
        name: The attribute's name.
        default: What ONNX says where it is left out.

    Returns:
        The integer; None where it is a function's parameter.
    """
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    return None if attribute.is_ref() else attribute.as_int()


def static_shape(value: onnx_ir.Value | None) -> list[int | str | None] | None:
    """A number, a symbol or None for each dimension; None where the rank is unknown."""
    if value is None or value.shape is None:
        return None
    return [dim if isinstance(dim, int) else dim.value for dim in value.shape]


def bypass(node: onnx_ir.Node, source: onnx_ir.Value) -> bool:
    """Lets everything that used the node's first output use ``source``, and drops the node.

    Where the output is a graph's output, ``source`` takes its name, type and declared shape;
    that needs ``source`` to be computed in the same graph and to be no output itself.

    Returns:
        Whether it was done.
    """
    output, graph = node.outputs[0], node.graph
    assert graph is not None
    if output.is_graph_output():
        producer = source.producer()
        if producer is None or producer.graph is not graph or source.is_graph_output():
            return False
        source.type, source.shape = output.type, output.shape
        output.replace_all_uses_with(source, replace_graph_outputs=True)
        name = output.name
        graph.remove(node, safe=True)
        output.name = None
        source.name = name
        return True
    if source.shape is None and output.shape is not None and source.dtype == output.dtype:
        source.shape = output.shape
    output.replace_all_uses_with(source)
    graph.remove(node, safe=True)
    return True


def constant_value(
    name: str, content: np.ndarray[Any, Any] | onnx_ir.TensorProtocol
) -> onnx_ir.Value:
    """A constant that stands nowhere yet; a tensor takes its name."""
    if isinstance(content, np.ndarray | np.generic):  # numpy makes scalars of what has no axes
        tensor: onnx_ir.TensorProtocol = onnx_ir.Tensor(np.asarray(content, order="C"), name=name)
    else:
        tensor = content
        tensor.name = name
    return onnx_ir.Value(
        name=name,
        shape=onnx_ir.Shape(tensor.shape.numpy()),
        type=onnx_ir.TensorType(tensor.dtype),
        const_value=tensor,
    )


def add_constant(
    graph: onnx_ir.Graph, name: str, content: np.ndarray[Any, Any] | onnx_ir.TensorProtocol
) -> onnx_ir.Value:
    """Adds an initializer to a graph.

    Args:
        graph: Where it is registered.
        name: What it is called; the name has to be free.
        content: The initializer's dtype, shape and values.
    """
    value = constant_value(name, content)
    graph.register_initializer(value)
    return value


def replace(old: onnx_ir.Node, new: onnx_ir.Node) -> None:
    """Puts ``new`` where ``old`` was; its first output takes over name, type and uses."""
    graph = old.graph
    assert graph is not None
    before, after = old.outputs[0], new.outputs[0]
    name, after.type, after.shape = before.name, before.type, before.shape
    new.name = old.name
    graph.insert_before(old, new)
    before.replace_all_uses_with(after, replace_graph_outputs=True)
    graph.remove(old, safe=True)
    before.name = None
    after.name = name


def same_tensor(one: onnx_ir.TensorProtocol, other: onnx_ir.TensorProtocol) -> bool:
    """Whether two tensors have the same type, shape and bytes; mapped ones are read in pieces."""
    if one is other:
        return True
    if one.dtype != other.dtype or tuple(one.shape) != tuple(other.shape):
        return False
    if one.dtype == onnx_ir.DataType.STRING:
        return bool((one.numpy() == other.numpy()).all())
    mine, theirs = one.numpy().reshape(-1), other.numpy().reshape(-1)
    return all(
        mine[start : start + _PIECE].tobytes() == theirs[start : start + _PIECE].tobytes()
        for start in range(0, mine.size, _PIECE)
    )


def weights_first(graph: onnx_ir.Graph) -> list[onnx_ir.Node]:
    """A graph's nodes in an order in which those on constants alone stand first.

    ONNX Runtime walks back from the outputs, and of a node's inputs takes first what is made by
    the last node (``Graph::ReverseDFSFrom``). Where weights are made of fewer bits in each run, in
    this order one is made when it is needed; else all of them may be before the first product.
    """
    made: set[onnx_ir.Value] = set()
    first, rest = [], []
    for node in graph:
        inputs = [value for value in node.inputs if value is not None]
        bodies = any(
            attribute.type in (onnx_ir.AttributeType.GRAPH, onnx_ir.AttributeType.GRAPHS)
            for attribute in node.attributes.values()
        )
        if not bodies and all(value in made or is_constant(value) for value in inputs):
            first.append(node)
            made.update(node.outputs)
        else:
            rest.append(node)
    return [*first, *rest]
