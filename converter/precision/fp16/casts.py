"""Writes the types into the graph: constants converted, Casts where a type changes, attributes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant
from converter.precision.fp16.graph import Network, Place, Read
from converter.precision.fp16.types import FLOAT
from converter.precision.fp16.weights import Format, converted


class Rewriter:
    """Gives every float32 tensor of a model the type of its place.

    Args:
        model: Changed in place.
        network: Of the model.
        wide: The places that stay in float32.
        into: The format of all others.
    """

    def __init__(
        self, model: onnx_ir.Model, network: Network, wide: set[Place], into: Format
    ) -> None:
        self._model, self._network, self._wide, self._into = model, network, wide, into
        self._versions: dict[tuple[onnx_ir.Value, bool], onnx_ir.Value] = {}
        self._renamed: set[onnx_ir.Value] = set()
        self._names = {value.name for graph in model.graphs() for value in graph.inputs}
        self._names |= {out.name for g in model.graphs() for node in g for out in node.outputs}
        self._names |= {name for graph in model.graphs() for name in graph.initializers}
        self._nodes = {node.name for graph in model.graphs() for node in graph}

    def run(self) -> None:
        borders = [read for read in self._network.reads if isinstance(read.where, onnx_ir.Graph)]
        for value, place in self._network.makers.items():
            if place not in self._wide:
                value.type = onnx_ir.TensorType(self._into.type)
        for node, place in self._network.of_node.items():
            if place not in self._wide:
                _retype(node, self._into)
        for read in self._network.reads:
            if isinstance(read.where, onnx_ir.Node):
                found = self._version(read.value, read.by in self._wide)
                read.where.replace_input_with(read.index, found)
        for read in borders:
            self._output(read)
        self._drop_constants()

    def _version(self, value: onnx_ir.Value, wide: bool) -> onnx_ir.Value:
        """The value in float32, or in the format: itself, a Cast of it, a converted constant."""
        maker = self._network.makers.get(value)
        if maker is not None and (maker in self._wide) == wide:
            return value
        if maker is None and wide:
            return value
        key = (value, wide)
        if key not in self._versions:
            make = self._constant if maker is None else self._cast
            self._versions[key] = make(value)
        return self._versions[key]

    def _constant(self, value: onnx_ir.Value) -> onnx_ir.Value:
        assert value.const_value is not None and value.graph is not None
        name = self._free(f"{value.name}_{self._into.name}", self._names)
        return add_constant(value.graph, name, converted(value.const_value, self._into, name))

    def _cast(self, value: onnx_ir.Value) -> onnx_ir.Value:
        wide = self._network.makers[value] in self._wide
        kind = self._into.type if wide else FLOAT
        suffix = self._into.name if wide else "float32"
        node = onnx_ir.node("Cast", [value], {"to": int(kind)}, name=None)
        node.name = self._free(f"{value.name}_to_{suffix}", self._nodes)
        made = node.outputs[0]
        made.name = self._free(f"{value.name}_{suffix}", self._names)
        made.type, made.shape = onnx_ir.TensorType(kind), value.shape
        self._insert(value, node)
        return made

    def _insert(self, value: onnx_ir.Value, node: onnx_ir.Node) -> None:
        producer = value.producer()
        graph = value.graph if producer is None else producer.graph
        assert isinstance(graph, onnx_ir.Graph)
        if producer is not None:
            graph.insert_after(producer, node)
        elif len(graph):
            graph.insert_before(graph[0], node)
        else:
            graph.append(node)

    def _output(self, read: Read) -> None:
        """A graph's output in the type that is wanted; the main graph's keep their names."""
        graph = read.where
        assert isinstance(graph, onnx_ir.Graph)
        found = self._version(read.value, read.by in self._wide)
        if found is read.value:
            return
        graph.outputs[read.index] = found
        if graph is self._model.graph and read.value not in self._renamed:
            self._renamed.add(read.value)
            made = "float32" if read.by not in self._wide else self._into.name
            name = read.value.name
            read.value.name = self._free(f"{name}_{made}", self._names)
            found.name = name

    def _drop_constants(self) -> None:
        """Constants that nothing reads any more; a converted one takes over the name."""
        for (value, _), made in self._versions.items():
            if value in self._network.makers or value.uses() or value.is_graph_output():
                continue
            graph, name = value.graph, value.name
            assert isinstance(graph, onnx_ir.Graph) and name is not None
            del graph.initializers[name]
            if not made.is_graph_output():
                made.name = name

    @staticmethod
    def _free(name: str, taken: set[str | None]) -> str:
        free, number = name, 0
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        taken.add(free)
        return free


def _retype(node: onnx_ir.Node, into: Format) -> None:
    """Says in a node's attributes that it makes the format now."""
    change = _ATTRIBUTES.get(node.op_type)
    if change is not None and node.domain == "":
        change(node, into)


def _cast_to(node: onnx_ir.Node, into: Format) -> None:
    node.attributes["to"] = onnx_ir.AttrInt64("to", int(into.type))


def _filled_with(node: onnx_ir.Node, into: Format) -> None:
    given = node.attributes.get("value")
    array = np.zeros(1, np.float32) if given is None else given.as_tensor().numpy()
    tensor = onnx_ir.Tensor(array.astype(into.numpy), dtype=into.type)
    node.attributes["value"] = onnx_ir.AttrTensor("value", tensor)


_ATTRIBUTES: dict[str, Callable[[onnx_ir.Node, Format], None]] = {
    "Cast": _cast_to,
    "ConstantOfShape": _filled_with,
}
