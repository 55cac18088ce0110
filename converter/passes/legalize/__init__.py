"""Brings a model to operators that a target has: ONNX to ONNX, as MLIR's dialect conversion does.

A target says of each node whether it is legal. What isn't is rewritten by its operator's rewrite,
and what that gives again, until all is legal or can't be: then the node stays, and why is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir

from converter.ir.edit import all_nodes
from converter.ir.refused import Refused
from converter.passes.legalize import (
    borders,
    deformable,
    determinant,
    einsum,
    elements,
    elementwise,
    extremes,
    grids,
    hyperbolic,
    integers,
    normalization,
    places,
    pooling,
    recurrent,
    reductions,
    regions,
    resizing,
    scans,
    spectrum,
    tables,
    unique,
    unpooling,
)
from converter.passes.legalize.builder import Builder, Rewrite, key_of

REWRITES: Mapping[str, Rewrite] = {
    **borders.REWRITES,
    **deformable.REWRITES,
    **determinant.REWRITES,
    **einsum.REWRITES,
    **elements.REWRITES,
    **elementwise.REWRITES,
    **extremes.REWRITES,
    **grids.REWRITES,
    **hyperbolic.REWRITES,
    **integers.REWRITES,
    **normalization.REWRITES,
    **places.REWRITES,
    **pooling.REWRITES,
    **recurrent.REWRITES,
    **reductions.REWRITES,
    **regions.REWRITES,
    **resizing.REWRITES,
    **scans.REWRITES,
    **spectrum.REWRITES,
    **tables.REWRITES,
    **unique.REWRITES,
    **unpooling.REWRITES,
}
"""By operator; of another domain than ONNX's by its :func:`key_of`."""

_OF_ANY_RANK = elementwise.REWRITES.keys() | reductions.REWRITES.keys()
"""Operators whose rewrites ask for no shape."""

WHY = "modelyard-illegal"
"""Key in a node's ``meta``: the :class:`Refused` of its rewrite."""


@dataclass(frozen=True)
class Rewritten:
    """A rewrite that was done.

    Attributes:
        key: The node's name; of an operator that ONNX defines by others, ``::`` and its name,
            for all nodes of it together, and so of a pass over the whole graph.
        node: The node's name; empty for several.
        op_type: Its operator.
        way: What it is now, for people.
    """

    key: str
    node: str
    op_type: str
    way: str = "written as simpler operators"


def legalize(
    model: onnx_ir.Model,
    legal: Callable[[onnx_ir.Node], bool],
    rewrites: Mapping[str, Rewrite] = REWRITES,
) -> list[Rewritten]:
    """Rewrites what isn't legal, in place, subgraphs too.

    Args:
        model: Its values have the shapes that follow; every node has a name.
        legal: Whether a target takes a node as it is.
        rewrites: By operator, where a target has its own.

    Returns:
        What was rewritten, in order: a node before those that its rewrite made.
    """
    opset, done = model.opset_imports.get("", 0), list[Rewritten]()
    waiting = all_nodes(model)
    while found := [node for node in waiting if key_of(node) in rewrites and not legal(node)]:
        made: list[onnx_ir.Node] = []
        for node in found:
            new = _rewritten(node, opset, rewrites[key_of(node)])
            if new is not None:
                done.append(Rewritten(node.name or "", node.name or "", node.op_type))
                made += [inner for each in new for inner in _with_inner(each)]
        waiting = iter(made)
    return done


def _with_inner(node: onnx_ir.Node) -> Iterator[onnx_ir.Node]:
    """A node, and those of its graphs."""
    yield node
    for attribute in node.attributes.values():
        if attribute.type == onnx_ir.AttributeType.GRAPH:
            yield from list(onnx_ir.traversal.RecursiveGraphIterator(attribute.as_graph()))


def _rewritten(node: onnx_ir.Node, opset: int, rewrite: Rewrite) -> Sequence[onnx_ir.Node] | None:
    """The nodes that took a node's place; None where it stays."""
    unknown = any(value is not None and value.shape is None for value in node.inputs[:1])
    if unknown and node.op_type not in _OF_ANY_RANK:
        return None
    builder = Builder(node, opset)
    try:
        made = rewrite(builder, node)
    except Refused as error:
        node.meta[WHY] = error
        made = None
    if made is None:
        builder.discard()
        return None
    return builder.put(made if isinstance(made, tuple) else (made,))


def why_illegal(node: onnx_ir.Node) -> Refused | None:
    """Why a node's rewrite couldn't be; None where it has none, or none was tried."""
    found = node.meta.get(WHY)
    return found if isinstance(found, Refused) else None
