"""Runs a model with inner tensors as its outputs, a few at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import onnx_ir

from converter.ir.facts import GIVES_SEQUENCES
from converter.runtime.ort import OrtSession

CHUNK_BYTES = 256 << 20
"""Most that the tapped tensors of one session are estimated to take."""

CHUNK_TENSORS = 128
UNKNOWN_ELEMENTS = 1 << 20
"""How large a tensor is taken to be whose shape isn't declared."""


def fed_tensors(model: onnx_ir.Model) -> list[onnx_ir.Value]:
    """Every tensor that a node of the main graph computes from the model's inputs, in the nodes'
    order. What depends on weights alone isn't among them, nor what lies in subgraphs."""
    graph = model.graph
    fed = {value for value in graph.inputs if value.name not in graph.initializers}
    found = []
    for node in graph:
        if any(value in fed for value in reads(node)):
            fed.update(node.outputs)
            if node.op_type not in GIVES_SEQUENCES:
                found += [value for value in node.outputs if value.name and _used(value)]
    return found


def reads(node: onnx_ir.Node) -> list[onnx_ir.Value]:
    """What a node reads, and what its subgraphs read from outside them."""
    found = [value for value in node.inputs if value is not None]
    for attribute in node.attributes.values():
        if attribute.is_ref():
            continue
        graphs = []
        if attribute.type == onnx_ir.AttributeType.GRAPH:
            graphs = [attribute.as_graph()]
        elif attribute.type == onnx_ir.AttributeType.GRAPHS:
            graphs = list(attribute.as_graphs())
        for graph in graphs:
            for inner in onnx_ir.traversal.RecursiveGraphIterator(graph):
                found += [value for value in inner.inputs if value is not None]
            found += list(graph.outputs)
    return found


def _used(value: onnx_ir.Value) -> bool:
    return value.is_graph_output() or bool(value.uses())


def chunked(model: onnx_ir.Model, names: Sequence[str]) -> Iterator[list[str]]:
    """``names`` in pieces whose tensors fit into memory together."""
    sizes = {value.name: _bytes(value) for node in model.graph for value in node.outputs}
    piece: list[str] = []
    taken = 0
    for name in names:
        size = sizes.get(name, 0)
        if piece and (taken + size > CHUNK_BYTES or len(piece) == CHUNK_TENSORS):
            yield piece
            piece, taken = [], 0
        piece.append(name)
        taken += size
    if piece:
        yield piece


def _bytes(value: onnx_ir.Value) -> int:
    if value.shape is None:
        return 4 * UNKNOWN_ELEMENTS
    return 4 * math.prod(dim if isinstance(dim, int) else 1 for dim in value.shape)


def open_tapped(model: onnx_ir.Model, names: Sequence[str], *, plain: bool = True) -> OrtSession:
    """A session whose only outputs are the tensors ``names``.

    Args:
        model: Not changed.
        names: Outputs of nodes of its main graph.
        plain: Without graph optimization.

    Raises:
        ModelError: ONNX Runtime refuses the model.
    """
    copy = model.clone()
    values = {value.name: value for node in copy.graph for value in node.outputs}
    copy.graph.outputs.clear()
    for name in names:
        value = values[name]
        value.shape = None  # what is declared may be wrong, and ONNX Runtime infers it again
        copy.graph.outputs.append(value)
    return OrtSession(copy, plain=plain)
