"""Brings a model to operators that a target has: ONNX to ONNX, as MLIR's dialect conversion does.

A target says of each node whether it is legal. What isn't is rewritten by its operator's rewrite,
and what that gives again, until all is legal or can't be: then the node stays, and why is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir

from converter.graph.edit import all_nodes, is_op
from converter.graph.refused import Refused
from converter.passes.legalize import (
    deformable,
    determinant,
    einsum,
    grids,
    hyperbolic,
    integers,
    normalization,
    places,
    regions,
    resizing,
    spectrum,
    unpooling,
)
from converter.passes.legalize.builder import Builder, Rewrite

REWRITES: Mapping[str, Rewrite] = {
    **deformable.REWRITES,
    **determinant.REWRITES,
    **einsum.REWRITES,
    **grids.REWRITES,
    **hyperbolic.REWRITES,
    **integers.REWRITES,
    **normalization.REWRITES,
    **places.REWRITES,
    **regions.REWRITES,
    **resizing.REWRITES,
    **spectrum.REWRITES,
    **unpooling.REWRITES,
}
"""By operator of the standard domain."""

WHY = "modelyard-illegal"
"""Key in a node's ``meta``: the :class:`Refused` of its rewrite."""


def legalize(model: onnx_ir.Model, legal: Callable[[onnx_ir.Node], bool]) -> list[str]:
    """Rewrites what isn't legal, in place, subgraphs too.

    Args:
        model: Its values have the shapes that follow; every node has a name.
        legal: Whether a target takes a node as it is.

    Returns:
        The operators that were rewritten, once for each node.
    """
    opset, done = model.opset_imports.get("", 0), []
    waiting = all_nodes(model)
    while found := [node for node in waiting if is_op(node, *REWRITES) and not legal(node)]:
        made: list[onnx_ir.Node] = []
        for node in found:
            new = _rewritten(node, opset)
            if new is not None:
                done.append(node.op_type)
                made += new
        waiting = iter(made)
    return done


def _rewritten(node: onnx_ir.Node, opset: int) -> Sequence[onnx_ir.Node] | None:
    """The nodes that took a node's place; None where it stays."""
    if any(value is not None and value.shape is None for value in node.inputs[:1]):
        return None
    builder = Builder(node, opset)
    try:
        made = REWRITES[node.op_type](builder, node)
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
