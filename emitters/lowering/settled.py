"""Settles by ``--dim`` what numbers of axes hang on sizes.

Targets with a fixed number of axes for each tensor can't drop an axis only where its size is 1:

    Given:   y = Squeeze (x)    x: [1, steps, 6]; --dim steps=16
    Result:  y = Squeeze <axes = [0]> (x)
    Given:   y = If (steps == 1) <Squeeze (x), Identity (x)>
    Result:  y = x

That is so at the size that the user gave, and at others tried beside it; where they don't agree,
nothing is settled. No size is fixed, and where 1 would make another model, whoever settles says so.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, all_nodes, constant, is_op, static_shape
from converter.ir.model import BATCH
from converter.ir.symbols import substitute
from emitters.lowering.folding import fold_constants, fold_rounds
from emitters.lowering.impossible import differs

Found = tuple[int, ...] | bool
"""The axes that a Squeeze drops, or which branch an If takes."""


def settle_ranks(model: onnx_ir.Model, sizes: Mapping[str, int]) -> list[str]:
    """Rewrites the model in place; says what was settled, in words.

    Args:
        model: Its constants folded (:func:`emitters.lowering.folding.fold_constants`).
        sizes: Of free dimensions, as the user gave them; those of 1 settle nothing, nor
            does the batch's.
    """
    sizes = {name: size for name, size in sizes.items() if size > 1 and name != BATCH}
    told: list[str] = []
    while sizes:
        open_nodes = {node.name or "": node for node in all_nodes(model) if _hangs_on_sizes(node)}
        trials = [
            _tried(model, set(open_nodes), {name: a * size + b for name, size in sizes.items()})
            for a, b in (_TRIED if open_nodes else ())
        ]
        agreed = {
            name: trials[0][name]
            for name in open_nodes
            if name in trials[0] and all(trial.get(name) == trials[0][name] for trial in trials)
        }
        if not agreed:
            break
        at = ", ".join(f"{name}={size}" for name, size in sizes.items()) + " (--dim)"
        told += [_settle(open_nodes[name], found, at) for name, found in agreed.items()]
        fold_constants(model)
    return told


_TRIED = ((1, 0), (1, 1), (2, 0))
"""What a size is multiplied by, and what is added, in each trial."""


def _hangs_on_sizes(node: onnx_ir.Node) -> bool:
    if is_op(node, "Squeeze"):
        given = node.inputs[1] if len(node.inputs) > 1 else None
        return given is None and not _is_known(node.inputs[0])
    return differs(node)


def _is_known(value: onnx_ir.Value | None) -> bool:
    shape = static_shape(value)
    return shape is not None and all(isinstance(dim, int) for dim in shape)


def _tried(model: onnx_ir.Model, names: set[str], sizes: Mapping[str, int]) -> dict[str, Found]:
    """What the nodes of those names do where the free dimensions are of these sizes, as far as
    that follows."""
    copy = model.clone()
    substitute(copy, sizes)
    fold_rounds(copy, branches=False)
    found: dict[str, Found] = {}
    for node in all_nodes(copy):
        if node.name not in names:
            continue
        if is_op(node, "If"):
            condition = constant(node.inputs[0])
            if condition is not None:
                found[node.name] = bool(condition.item())
        elif _is_known(node.inputs[0]):
            shape = static_shape(node.inputs[0]) or []
            found[node.name] = tuple(axis for axis, dim in enumerate(shape) if dim == 1)
    return found


def _settle(node: onnx_ir.Node, found: Found, at: str) -> str:
    graph = node.graph
    assert isinstance(graph, onnx_ir.Graph)
    if isinstance(found, bool):
        node.replace_input_with(0, add_constant(graph, f"{node.name}_taken", np.asarray(found)))
        branch = "then_branch" if found else "else_branch"
        return (
            f"{node.name} only has its {branch}, as at {at}; at sizes where the source takes "
            "the other branch, results differ"
        )
    axes = np.asarray(found, np.int64)
    node.resize_inputs(2)
    node.replace_input_with(1, add_constant(graph, f"{node.name}_axes", axes))
    dropped = f"only axis {', '.join(map(str, found))}" if found else "no axis"
    return (
        f"{node.name} drops {dropped}, as at {at}; where another has size 1, the source drops it "
        "too"
    )
