"""Which operators a target has lowerings of, and which outputs of a node a lowering has to give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

import onnx_ir

from converter.errors import Unsupported
from converter.ir.definitions import is_defined
from converter.ir.edit import all_nodes, is_op
from converter.ir.refused import Refused
from converter.passes.legalize import why_illegal
from converter.passes.legalize.builder import key_of

Reason = Callable[[onnx_ir.Node], tuple[str, str]]
"""Why there is no lowering of a node, and what the user can do."""

STANDARD = ("", "ai.onnx")
"""The names of ONNX's own domain."""


def unsupported_operators(
    model: onnx_ir.Model, known: Set[str], reason: Reason
) -> list[Unsupported]:
    """Nodes whose operator has no lowering at all: what can be said before simplifying.

    Args:
        model: Any; functions of its own are written out before they are lowered.
        known: ONNX's operators that are lowered, or rewritten before.
        reason: Of the others.
    """
    opset, found = model.opset_imports.get("", 0), []
    for node in all_nodes(model):
        standard = node.domain in STANDARD
        written = key_of(node) in known or (standard and is_defined(node.op_type, opset))
        own = (node.domain, node.op_type, node.overload) in model.functions
        if not written and not own and not is_op(node, "Constant"):
            found.append(Unsupported(node.name or "", node.op_type, *reason(node)))
    return found


def refused_nodes(
    model: onnx_ir.Model, why: Callable[[onnx_ir.Node], str | None], remedy: str
) -> Iterator[Unsupported]:
    """Nodes that a target's own reader of ONNX doesn't take.

    Args:
        model: Legalized, as far as it can be.
        why: Why a node isn't taken; None where it is.
        remedy: What to do, where a rewrite that was tried says nothing.
    """
    for node in all_nodes(model):
        if (reason := why(node)) is not None:
            known = why_illegal(node)
            op = node.op_type if node.domain in STANDARD else f"{node.domain}::{node.op_type}"
            hint = (known.hint if known else "") or remedy
            yield Unsupported(node.name or "", op, reason, hint)


def used_outputs(
    node: onnx_ir.Node, has: Callable[[onnx_ir.Value], bool], target: str
) -> list[onnx_ir.Value]:
    """The outputs of a node that was lowered, those that something takes.

    Args:
        node: The node.
        has: Whether its lowering gave an output.
        target: The target's name, for the message.

    Raises:
        Refused: Its lowering didn't give one of them.
    """
    used = [out for out in node.outputs if out.uses() or out.is_graph_output()]
    missing = [out.name for out in used if not has(out)]
    if missing:
        raise Refused(f"{target} has no output {', '.join(map(str, missing))} of it")
    return used
