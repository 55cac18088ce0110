"""Goes through a graph's nodes, lowering each, and collects what can't be."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir

from converter.errors import Unsupported
from converter.ir.edit import is_op
from converter.ir.refused import Refused, RefusedInside

_REFUSED = "lowering-refused"


def lower_each(
    graph: onnx_ir.Graph, lower: Callable[[onnx_ir.Node], None], refusals: list[Unsupported]
) -> bool:
    """Lowers a graph's nodes in order.

    Args:
        graph: The main graph, or the body of an If or Loop.
        lower: Lowers one; raises Refused, or RefusedInside for nodes within it.
        refusals: What can't be lowered is added; what depends on it isn't looked at.

    Returns:
        Whether all are lowered.
    """
    whole = True
    for node in graph:
        if is_op(node, "Constant") or all(not output.name for output in node.outputs):
            continue
        if any(is_refused(value) for value in node.inputs):
            whole = _refuse(node)
            continue
        try:
            lower(node)
        except RefusedInside as inside:
            refusals.extend(inside.refusals)
            whole = _refuse(node)
        except Refused as refused:
            refusals.append(
                Unsupported(node.name or "", node.op_type, refused.reason, refused.hint)
            )
            whole = _refuse(node)
    return whole


def is_refused(value: onnx_ir.Value | None) -> bool:
    """Whether a value can't be had: its node was refused, or one before it."""
    return value is not None and bool(value.meta.get(_REFUSED))


def _refuse(node: onnx_ir.Node) -> bool:
    for output in node.outputs:
        output.meta[_REFUSED] = True
    return False


def name_nodes(model: onnx_ir.Model) -> None:
    """Names what was written out after what it gives: refusals name nodes."""
    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        if not node.name:
            node.name = next((output.name for output in node.outputs if output.name), node.op_type)
