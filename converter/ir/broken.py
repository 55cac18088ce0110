"""Finds what of an ONNX graph contradicts itself: names, tensors, cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import onnx

from converter.errors import ModelError
from converter.ir.external import tensor_bytes
from converter.ir.onnx_walk import attribute_graphs
from converter.ir.possible import MOST_AXES

_TYPED_FIELDS: dict[int, str] = {  # onnx.proto, TensorProto; int32_data for all others
    onnx.TensorProto.FLOAT: "float_data",
    onnx.TensorProto.INT64: "int64_data",
    onnx.TensorProto.DOUBLE: "double_data",
    onnx.TensorProto.UINT32: "uint64_data",
    onnx.TensorProto.UINT64: "uint64_data",
}


def check_graph(proto: onnx.ModelProto, name: str) -> None:
    """Refuses a model whose graph contradicts itself, with everything that is wrong with it.

    Args:
        proto: The model; external weights are not looked at.
        name: The file's name, for messages.

    Raises:
        ModelError: It does.
    """
    if problems := list(_problems(proto)):
        raise ModelError(
            f"{name} is not a valid model",
            code="model-invalid",
            details=problems,
            hint="The program that wrote the file made a mistake. Export the model again.",
        )


def _problems(proto: onnx.ModelProto) -> Iterator[str]:
    graph = proto.graph
    if not graph.output:
        yield "the graph has no outputs"
    for value in graph.input:
        if value.type.tensor_type.elem_type == 0 and value.type.HasField("tensor_type"):
            yield f"input {value.name} has no element type"
    yield from _graph_problems(graph, frozenset(), "")


def _graph_problems(graph: onnx.GraphProto, outer: frozenset[str], where: str) -> Iterator[str]:
    weights = [*graph.initializer, *(item.values for item in graph.sparse_initializer)]
    yield from _duplicates((value.name for value in graph.input), "inputs", where)
    yield from _duplicates((tensor.name for tensor in weights), "initializers", where)
    made = [name for node in graph.node for name in node.output if name]
    fed = {value.name for value in graph.input} | {tensor.name for tensor in weights}
    yield from _duplicates(made, "node outputs", where)
    for name in dict.fromkeys(name for name in made if name in fed):
        yield f"{where}{name} is computed by a node, and is an input or initializer too"
    for tensor in graph.initializer:
        yield from _tensor_problem(tensor, where)
    scope = outer | fed | frozenset(made)
    for node in graph.node:
        yield from _node_problems(node, scope, where)
    for value in graph.output:
        if value.name not in scope:
            yield f"{where}nothing computes the output {value.name}"
    yield from _cycle(graph, where)


def _node_problems(node: onnx.NodeProto, scope: frozenset[str], where: str) -> Iterator[str]:
    title = f"{where}{node.op_type} ({node.name or ', '.join(node.output)})"
    for name in node.input:
        if name and name not in scope:
            yield f"{title} takes {name!r}, which nothing computes"
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield from _tensor_problem(attribute.t, f"{title}: ")
        for body in attribute_graphs(attribute):
            yield from _graph_problems(body, scope, f"{title}: ")


def _duplicates(names: Iterable[str], what: str, where: str) -> Iterator[str]:
    for name, count in Counter(names).items():
        if count > 1:
            yield f"{where}{count} {what} are called {name}"


def _tensor_problem(tensor: onnx.TensorProto, where: str) -> Iterator[str]:
    title = f"{where}tensor {tensor.name or 'without a name'}"
    if len(tensor.dims) > MOST_AXES:
        yield f"{title} has {len(tensor.dims)} dimensions, of at most {MOST_AXES}"
        return
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    if tensor.data_type == onnx.TensorProto.STRING:
        expected, found, unit = _count(tensor), len(tensor.string_data), "strings"
    else:
        try:
            needed = tensor_bytes(tensor)
        except ValueError as error:
            yield f"{title}: {error}"
            return
        if tensor.HasField("raw_data"):
            expected, found, unit = needed, len(tensor.raw_data), "bytes"
        else:
            expected, found = _numbers(tensor)
            unit = "numbers"
    if expected != found:
        yield f"{title} of shape {list(tensor.dims)} has {found} {unit}, not {expected}"


def _count(tensor: onnx.TensorProto) -> int:
    count = 1
    for dim in tensor.dims:
        count *= dim
    return count


def _numbers(tensor: onnx.TensorProto) -> tuple[int, int]:
    """How many numbers a tensor needs in its typed field, and how many are there."""
    count = _count(tensor)
    if tensor.data_type in (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128):
        wide = tensor.data_type == onnx.TensorProto.COMPLEX128
        return 2 * count, len(tensor.double_data if wide else tensor.float_data)
    field = getattr(tensor, _TYPED_FIELDS.get(tensor.data_type, "int32_data"))
    return min(count, tensor_bytes(tensor)), len(field)  # less than a byte each: packed


def _cycle(graph: onnx.GraphProto, where: str) -> Iterator[str]:
    """The nodes of a graph that wait for each other, if any do."""
    maker = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    waits = [{maker[name] for name in _needs(node) if name in maker} for node in graph.node]
    users: dict[int, list[int]] = {}
    for index, needed in enumerate(waits):
        for other in needed:
            users.setdefault(other, []).append(index)
    ready = [index for index, needed in enumerate(waits) if not needed]
    left = set(range(len(waits)))
    while ready:
        done = ready.pop()
        left.discard(done)
        for user in users.get(done, ()):
            waits[user].discard(done)
            if not waits[user] and user in left:
                ready.append(user)
    if left:
        titles = [graph.node[i].name or graph.node[i].op_type for i in sorted(left)[:8]]
        yield f"{where}nodes wait for each other in a circle: {', '.join(titles)}"


def _needs(node: onnx.NodeProto) -> Iterator[str]:
    """What a node takes, its bodies included: those see the names around it."""
    yield from node.input
    for attribute in node.attribute:
        for body in attribute_graphs(attribute):
            own = {name for inner in body.node for name in inner.output}
            own.update(value.name for value in body.input)
            for inner in body.node:
                yield from (name for name in _needs(inner) if name not in own)
            yield from (value.name for value in body.output if value.name not in own)
