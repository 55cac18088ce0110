"""Our own cleaning up: what is safe to leave out, bit for bit, in any model.

In this order, the middle part again for as long as it finds something:

1. Functions of the model's own are put in the place of their calls.
2. Constants become initializers of the main graph, each once (:mod:`.constants`).
3. Nodes that do nothing go (:mod:`.no_op`); pairs of nodes become one (:mod:`.merge`); rows
   that are written over are joined to the others (:mod:`.rows`).
4. Of nodes that compute the same from the same, the first one stays.
5. Nodes, initializers, functions and opset imports that nothing uses go.
6. Nodes stand after what they use; nodes and values without a name, or with one that is
   taken, get one: tools that are told nodes by name pass over those without.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir
import onnx_ir.passes.common as common
from onnx_ir.passes import PassResult

from converter.passes.base import SimplifyingPass
from converter.passes.cleanup.constants import GatherConstants
from converter.passes.cleanup.duplicates import DropDuplicates
from converter.passes.cleanup.merge import MergeChains
from converter.passes.cleanup.no_op import RemoveNoOps
from converter.passes.cleanup.rows import JoinRows


@dataclass(frozen=True)
class CleanupParameters:
    """Parameters of :class:`Cleanup`.

    Attributes:
        rounds: Most times that the graph is gone over.
    """

    rounds: int = 10


class Cleanup(SimplifyingPass):
    """Leaves out what does nothing, is there twice, or isn't used; names what has no name."""

    name = "cleanup"
    summary = "drops no-ops, duplicates and unused parts; inlines functions; names every node"
    must_shrink = False  # functions that are called twice are there twice afterwards

    def __init__(self, parameters: CleanupParameters | None = None) -> None:
        self.parameters = parameters or CleanupParameters()

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Runs the steps of the module's list on ``model``, in place."""
        modified = False
        if model.functions:
            modified |= common.InlinePass()(model).modified
        for _ in range(self.parameters.rounds):
            changes = [step(model).modified for step in _round()]
            if not any(changes):
                break
            modified = True
        for last in (
            common.RemoveUnusedFunctionsPass(),  # type: ignore[no-untyped-call]
            common.RemoveUnusedOpsetsPass(),
            common.TopologicalSortPass(),
            common.NameFixPass(NodeNames()),
        ):
            modified |= last(model).modified
        return PassResult(model, modified)


def _round() -> list[onnx_ir.passes.InPlacePass]:
    return [
        GatherConstants(),
        MergeChains(),
        RemoveNoOps(),
        JoinRows(),
        DropDuplicates(),
        common.RemoveUnusedNodesPass(),
    ]


class NodeNames:
    """Names for the unnamed: a node's is its operator's, a value's is ``value``."""

    def generate_node_name(self, node: onnx_ir.Node) -> str:
        """The node's own name, or its operator's."""
        return node.name or node.op_type

    def generate_value_name(self, value: onnx_ir.Value) -> str:
        """The value's own name, or ``value``."""
        return value.name or "value"
