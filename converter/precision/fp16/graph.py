"""Who makes and who reads each float32 tensor of a model, subgraphs included.

Every tensor has the type of what makes it. Makers and readers that must have one type are one
*place*: a node; the value that a Loop carries through its body; an output of an If, which both
branches give. A place is float32 or half a precision, and where a reader's place differs from
the maker's there has to be a Cast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir

from converter.precision.fp16.types import Slots, bodies, is_float32, slots_of


@dataclass(eq=False)
class Place:
    """What is of one type.

    Attributes:
        node: The node; None for a value that is carried, an output of a branch, the border.
        fixed: None where there is a choice; whether it is float32.
    """

    node: onnx_ir.Node | None = None
    fixed: bool | None = None


@dataclass(eq=False)
class Read:
    """A place where a tensor is read: an input of a node, or an output of a graph."""

    value: onnx_ir.Value
    by: Place
    where: onnx_ir.Node | onnx_ir.Graph
    index: int


@dataclass
class Network:
    """The float32 tensors of a model.

    Attributes:
        makers: For each float32 tensor that isn't a constant, its place.
        reads: Every read of a float32 tensor that wants a type.
        slots: What of each node can be lowered.
        places: Every place with a choice.
        wide, narrow: The places that are float32, and that aren't, in any case.
    """

    makers: dict[onnx_ir.Value, Place] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    slots: dict[onnx_ir.Node, Slots] = field(default_factory=dict)
    of_node: dict[onnx_ir.Node, Place] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    wide: Place = field(default_factory=lambda: Place(fixed=True))
    narrow: Place = field(default_factory=lambda: Place(fixed=False))

    @classmethod
    def of(cls, model: onnx_ir.Model, dtype: onnx_ir.DataType, narrow_border: bool) -> Network:
        """The network of ``model`` with its functions inlined and all types set.

        Args:
            model: The model.
            dtype: The type to lower to.
            narrow_border: Whether the model's float32 inputs and outputs are of that type too.
        """
        network = cls()
        border = network.narrow if narrow_border else network.wide
        for value in model.graph.inputs:
            # a default that a caller may replace has the type that it is declared with
            default = value.name in model.graph.initializers
            network._made(value, network.wide if default else border)
        network._graph(model.graph, dict(model.opset_imports), dtype)
        network._outputs(model.graph, [border] * len(model.graph.outputs))
        return network

    def place(self, node: onnx_ir.Node | None = None) -> Place:
        """A new place with a choice."""
        self.places.append(Place(node))
        return self.places[-1]

    def _made(self, value: onnx_ir.Value, place: Place) -> None:
        if is_float32(value):
            self.makers[value] = place

    def _read(
        self,
        value: onnx_ir.Value | None,
        by: Place,
        where: onnx_ir.Node | onnx_ir.Graph,
        index: int,
    ) -> None:
        if value is not None and is_float32(value):
            self.reads.append(Read(value, by, where, index))

    def _outputs(self, graph: onnx_ir.Graph, places: list[Place]) -> None:
        for index, (value, place) in enumerate(zip(graph.outputs, places, strict=True)):
            if not (value.is_graph_input() and place.fixed is not None):  # its name is taken
                self._read(value, place, graph, index)

    def _graph(self, graph: onnx_ir.Graph, opsets: dict[str, int], dtype: onnx_ir.DataType) -> None:
        for node in graph:
            if node.domain == "" and node.op_type in _CONTROL:
                _CONTROL[node.op_type](self, node)
            else:
                self._node(node, opsets, dtype)
            for body in bodies(node):
                self._graph(body, opsets, dtype)

    def _node(self, node: onnx_ir.Node, opsets: dict[str, int], dtype: onnx_ir.DataType) -> None:
        slots = self.slots[node] = slots_of(node, opsets, dtype)
        own = self.wide
        if slots.any:
            own = self.of_node[node] = self.place(node)
        for index in slots.with_node:
            self._read(node.inputs[index], own, node, index)
        for index in slots.float32:
            self._read(node.inputs[index], self.wide, node, index)
        for index in slots.outputs:
            self._made(node.outputs[index], own)
        for index in slots.outputs_float32:
            self._made(node.outputs[index], self.wide)
        for body in bodies(node):
            for value in body.inputs:
                self._made(value, self.wide)
            self._outputs(body, [self.wide] * len(body.outputs))

    def _if(self, node: onnx_ir.Node) -> None:
        places = [self.place() for _ in node.outputs]
        for value, place in zip(node.outputs, places, strict=True):
            self._made(value, place)
        for body in bodies(node):
            self._outputs(body, places)

    def _loop(self, node: onnx_ir.Node) -> None:
        (body,) = bodies(node)
        places = [self.place() for _ in body.outputs]  # of the condition first, which isn't a float
        for index, place in enumerate(places[1 : len(node.inputs) - 1], 2):
            self._read(node.inputs[index], place, node, index)
            self._made(body.inputs[index], place)
        for value, place in zip(node.outputs, places[1:], strict=False):
            self._made(value, place)
        self._outputs(body, places)

    def _scan(self, node: onnx_ir.Node) -> None:
        (body,) = bodies(node)
        states = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
        places = [self.place() for _ in body.outputs]
        for index, value in enumerate(node.inputs):
            place = places[index] if index < states else self.place()
            self._read(value, place, node, index)
            self._made(body.inputs[index], place)
        for value, place in zip(node.outputs, places, strict=False):
            self._made(value, place)
        self._outputs(body, places)

    def nodes(self) -> Iterator[onnx_ir.Node]:
        """Every node with float32 tensors, in the order of the graph."""
        for node, slots in self.slots.items():
            if slots.any or slots.why_not:
                yield node


_CONTROL = {"If": Network._if, "Loop": Network._loop, "Scan": Network._scan}
