"""Runs a graph piece by piece, so that its weights can be changed on the way.

What a layer makes of its inputs is only known once everything before it is settled. A
:class:`Walk` keeps what the rest of the graph still needs, for all samples, and carries it
through the next nodes: to stop at every layer costs one inference in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir

from converter.errors import UsageError
from converter.ir.model import IR_VERSION, Model
from converter.precision.layers import layers
from converter.runtime.ort import OrtSession
from converter.samples import Samples

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]

MEMORY = 1 << 30
"""Bytes that two walks, over a model and over what it was lowered to, may keep between them."""

MOST = 128
"""Samples beyond which means and covariances don't change any more."""


def enough(model: Model, samples: Samples) -> list[Feeds]:
    """The inputs of as many samples as :data:`MEMORY` and :data:`MOST` allow, evenly picked."""
    first = next(iter(samples), None)
    if first is None:
        raise UsageError("there are no samples", code="samples-missing")
    walk, peak = Walk(model, [first.feeds]), 1
    for layer in layers(model.graph.graph):
        assert layer.node.inputs[0] is not None
        walk.reach(layer.node.inputs[0])
        before = walk.bytes
        walk.reach(layer.node.outputs[0])
        peak = max(peak, before, walk.bytes)
    count = max(1, min(len(samples), MOST, MEMORY // (2 * peak)))
    picked = {int(at) for at in np.linspace(0, len(samples) - 1, count)}
    return [sample.feeds for at, sample in enumerate(samples) if at in picked]


class Walk:
    """A model, part of whose nodes have run on each of the samples.

    Args:
        model: Weights of nodes that have not run may be changed meanwhile, and their inputs
            replaced.
        feeds: The inputs of each sample. They aren't kept longer than they are needed.
    """

    def __init__(self, model: Model, feeds: Iterable[Feeds]) -> None:
        self._model = model
        self._constant = _constant_nodes(model.graph.graph)
        made = set(self._constant.values())
        self._waiting = dict.fromkeys(node for node in model.graph.graph if node not in made)
        self._uses = Counter(name for node in self._waiting for name in _read(node))
        self._live = [{k: v for k, v in item.items() if self._uses[k]} for item in feeds]

    @property
    def bytes(self) -> int:
        """Bytes of what is kept now."""
        return sum(array.nbytes for live in self._live for array in live.values())

    def reach(self, value: onnx_ir.Value) -> list[Array]:
        """Runs what ``value`` still needs; gives it on each sample."""
        nodes = self._needed(value)
        if nodes:
            self._run(nodes, value.name or "")
        return [live[value.name or ""] for live in self._live]

    def rank(self, value: onnx_ir.Value) -> int:
        """Dimensions of a value that was just reached."""
        return self._live[0][value.name or ""].ndim

    def add(self, value: onnx_ir.Value, amount: Array) -> None:
        """Adds something to a value that was just reached, on every sample."""
        for live in self._live:
            live[value.name or ""] = live[value.name or ""] + amount

    def _needed(self, value: onnx_ir.Value) -> list[onnx_ir.Node]:
        found: set[onnx_ir.Node] = set()
        open_ends = [value]
        while open_ends:
            node = open_ends.pop().producer()
            if node in self._waiting and node not in found:
                assert node is not None
                found.add(node)
                open_ends.extend(_inputs(node))
        return [node for node in self._waiting if node in found]

    def _run(self, nodes: list[onnx_ir.Node], goal: str) -> None:
        read = set().union(*(_read(node) for node in nodes))
        for node in nodes:
            del self._waiting[node]
            self._uses.subtract(_read(node))
        made = [value.name or "" for node in nodes for value in node.outputs]
        wanted = [name for name in made if name and (self._uses[name] > 0 or name == goal)]
        given = {name: array for name, array in self._live[0].items() if name in read}
        whole = [*self._constants_of(nodes), *nodes]
        session = OrtSession(_piece(self._model, whole, given, wanted), plain=True)
        for live in self._live:
            found = session.run({name: live[name] for name in given})
            for name in [name for name in live if self._uses[name] <= 0]:
                del live[name]
            live.update(found)

    def _constants_of(self, nodes: Iterable[onnx_ir.Node]) -> list[onnx_ir.Node]:
        """The nodes that make constants for ``nodes`` out of initializers, in order."""
        found: dict[onnx_ir.Node, None] = {}
        for node in nodes:
            for value in _inputs(node):
                maker = self._constant.get(value.name or "")
                if maker is not None and maker not in found:
                    found |= dict.fromkeys([*self._constants_of([maker]), maker])
        return list(found)


def _constant_nodes(graph: onnx_ir.Graph) -> dict[str, onnx_ir.Node]:
    """The nodes that read nothing but initializers (and one another), by what they make.

    They run along with what uses them: a weight's DequantizeLinear may stand anywhere before,
    and must not have run when the weight is changed.
    """
    made: dict[str, onnx_ir.Node] = {}
    outputs = {value.name for value in graph.outputs}
    for node in graph:
        known = all(v.is_initializer() or v.name in made for v in _inputs(node))
        if known and not any(value.name in outputs for value in node.outputs):
            made |= {value.name or "": node for value in node.outputs if value.name}
    return made


def _inputs(node: onnx_ir.Node) -> Iterable[onnx_ir.Value]:
    """What a node reads, and what its subgraphs read."""
    yield from (value for value in node.inputs if value is not None)
    for attribute in node.attributes.values():
        if attribute.type == onnx_ir.AttributeType.GRAPH and not attribute.is_ref():
            for inner in onnx_ir.traversal.RecursiveGraphIterator(attribute.as_graph()):
                yield from (value for value in inner.inputs if value is not None)
            yield from attribute.as_graph().outputs


def _read(node: onnx_ir.Node) -> set[str]:
    return {value.name or "" for value in _inputs(node)}


def _piece(
    model: Model, nodes: list[onnx_ir.Node], given: Feeds, wanted: list[str]
) -> onnx_ir.Model:
    """Some of the model's nodes as a model of their own."""
    constants = model.graph.graph.initializers
    used = dict.fromkeys(value.name or "" for node in nodes for value in _inputs(node))
    graph = onnx.GraphProto(name="piece")
    graph.node.extend(onnx_ir.to_proto(node) for node in nodes)
    for name in used:
        if name in constants and name not in given:
            graph.initializer.add(name=name, data_type=int(constants[name].dtype or 0))
    for name, array in given.items():
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        free = [None] * array.ndim
        graph.input.append(onnx.helper.make_tensor_value_info(name, kind, free))
    made = {value.name: value for node in nodes for value in node.outputs}
    for name in wanted:
        graph.output.append(_untyped(made[name]))
    imports = [
        onnx.helper.make_opsetid(domain, version)
        for domain, version in model.graph.opset_imports.items()
    ]
    proto = onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    piece = onnx_ir.from_proto(proto)
    for name, value in piece.graph.initializers.items():
        value.const_value = constants[name].const_value  # shared: a mapped one isn't read here
    return piece


def _untyped(value: onnx_ir.Value) -> onnx.ValueInfoProto:
    """An output without its shape, and with its type where that is known."""
    info = onnx.ValueInfoProto(name=value.name or "")
    if value.dtype is not None:
        info.type.tensor_type.elem_type = int(value.dtype)
    return info
