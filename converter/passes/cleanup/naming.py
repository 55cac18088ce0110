"""Gives nodes and inner values names, each one of its own, the same every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, MutableSet

import onnx_ir


def name_values(model: onnx_ir.Model) -> bool:
    """Names inner values that have no name, or one that another value has.

    Returns:
        Whether there were any.
    """
    main = model.graph
    kept = {*main.inputs, *main.outputs, *main.initializers.values()}
    taken = {value.name for value in kept}
    changed, unnamed = False, Counter[str]()
    for value, base in _inner_values(model):
        if value in kept:
            continue
        if not value.name or value.name in taken:
            value.name = unique(value.name or base, taken, unnamed)
            changed = True
        taken.add(value.name)
    return changed


def _inner_values(model: onnx_ir.Model) -> Iterator[tuple[onnx_ir.Value, str]]:
    """Every value with a base for its name; an output that nobody needs may stay without."""
    for graph in model.graphs():
        if graph is not model.graph:
            yield from ((value, f"{graph.name or 'body'}_input") for value in graph.inputs)
            yield from ((value, "weight") for value in list(graph.initializers.values()))
        for node in graph:
            for value in node.outputs:
                if value.name or value.uses() or value.is_graph_output():
                    yield value, f"{node.op_type.lower()}_out"


def name_nodes(model: onnx_ir.Model) -> bool:
    """Names nodes that have no name (``<op>_<number>``), or one that another node has.

    Returns:
        Whether there were any.
    """
    nodes = list(every_node(model))
    taken: set[str | None] = {node.name for node in nodes if node.name}
    seen: set[str] = set()
    counts, changed = Counter[str](), False
    for node in nodes:
        if node.name and node.name not in seen:
            seen.add(node.name)
            continue
        node.name = unique(node.name or node.op_type, taken, counts, always=not node.name)
        seen.add(node.name)
        changed = True
    return changed


def unique(
    base: str, taken: MutableSet[str | None], counts: Counter[str], *, always: bool = False
) -> str:
    """``base`` with the next free number; without one where it is free and ``always`` isn't.

    Args:
        base: What it is to be like.
        taken: Names that aren't free; the new one is added.
        counts: The last number of each base: as no name gets free, none is tried twice.
        always: Whether it gets a number in any case.
    """
    candidate = f"{base}_{counts[base]}" if always else base
    while candidate in taken:
        counts[base] += 1
        candidate = f"{base}_{counts[base]}"
    taken.add(candidate)
    if always:
        counts[base] += 1
    return candidate


def every_node(model: onnx_ir.Model) -> Iterator[onnx_ir.Node]:
    """Every node: main graph, subgraphs and functions."""
    yield from onnx_ir.traversal.RecursiveGraphIterator(model.graph)
    for function in model.functions.values():
        yield from onnx_ir.traversal.RecursiveGraphIterator(function)
