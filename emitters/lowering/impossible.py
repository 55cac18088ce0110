"""Takes the one branch of an If that a model can run with.

Targets with a fixed number of axes for each tensor can't have an If that gives three axes or two.
Exporters write one for a squeeze of an axis whose size they don't know:

    Given:   y = If (size == 1) <Squeeze (x), Identity (x)>     ...     LSTM (Unsqueeze (y), ...)
    Result:  y = Squeeze (x)                                    ...     LSTM (Unsqueeze (y), ...)

With the other branch the LSTM would have an input of four axes, and no runtime takes that: sizes
that lead there end in an error in the model itself. Only what is proved so is taken: a branch is
impossible where, in its place, a node that is always run has operands of a number of axes that
its operator doesn't allow.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, all_nodes, is_op
from converter.ir.facts import RECURRENT
from emitters.lowering.folding import fold_constants

MOST = 16
"""Ifs that are looked at: each takes inferring all shapes twice."""


def take_possible(model: onnx_ir.Model) -> list[str]:
    """Rewrites the model in place; says what was taken, in words.

    Args:
        model: Its constants folded (:func:`emitters.lowering.folding.fold_constants`).
    """
    looked_at, told = 0, []
    place = _next(model, 0)
    while place is not None and looked_at < MOST:
        looked_at += 1
        ways = [way for way in (True, False) if _runs(model, place, way)]
        if len(ways) == 1:
            name = _decide(model, place, ways[0])
            branch = "then_branch" if ways[0] else "else_branch"
            told.append(f"{name} only has its {branch}: the model fails with the other")
            fold_constants(model)
        place = _next(model, place if len(ways) == 1 else place + 1)
    return told


def _next(model: onnx_ir.Model, start: int) -> int | None:
    """Where the next If is whose branches have results of several numbers of axes."""
    nodes = list(all_nodes(model))
    return next((i for i in range(start, len(nodes)) if differs(nodes[i])), None)


def differs(node: onnx_ir.Node) -> bool:
    """Whether it is an If whose branches have results of several numbers of axes."""
    if not is_op(node, "If"):
        return False
    one, other = (node.attributes[f"{name}_branch"].as_graph() for name in ("then", "else"))
    ranks = [
        (_rank(first), _rank(second))
        for first, second in zip(one.outputs, other.outputs, strict=True)
    ]
    return any(a is not None and b is not None and a != b for a, b in ranks)


def _runs(model: onnx_ir.Model, place: int, way: bool) -> bool:
    """Whether nothing is known to fail with a branch taken."""
    copy = model.clone()
    owner = list(all_nodes(copy))[place].graph
    _decide(copy, place, way)
    fold_constants(copy)
    return not any(_fails(node) for node in all_nodes(copy) if node.graph is owner)


def _decide(model: onnx_ir.Model, place: int, way: bool) -> str:
    """Gives an If a constant for its condition: folding takes the branch then. Gives its name."""
    node = list(all_nodes(model))[place]
    graph = node.graph
    assert isinstance(graph, onnx_ir.Graph)
    taken = add_constant(graph, f"{node.name}_taken", np.asarray(way))
    node.replace_input_with(0, taken)
    return node.name or "If"


def _fails(node: onnx_ir.Node) -> bool:
    """Whether its operator doesn't allow the number of axes that its operands have."""
    ranks = [_rank(value) for value in node.inputs]
    if is_op(node, *RECURRENT):
        return ranks[0] not in (None, 3)
    if is_op(node, "Gemm"):
        return any(rank not in (None, 2) for rank in ranks[:2])
    if is_op(node, "Conv", "ConvTranspose"):
        return None not in ranks[:2] and ranks[0] != ranks[1]
    if is_op(node, "Concat"):
        return len({rank for rank in ranks if rank is not None}) > 1
    return False


def _rank(value: onnx_ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)
