"""An ONNX model becomes PyTorch's code: prepared, then each node by its operator's entry."""

from __future__ import annotations

import onnx_ir

from converter.errors import Unsupported
from converter.ir.model import Model
from converter.passes.legalize.chain import LegalizingPass
from emitters.code.context import Context
from emitters.code.program import Program, program_of
from emitters.code.table import fold_weights
from emitters.lowering.folding import fold_constants, fold_rounds
from emitters.lowering.walking import name_nodes
from emitters.pytorch import ops
from emitters.pytorch.dialect import Torch
from emitters.pytorch.ops.attention import attend, found_in
from emitters.pytorch.registry import TABLE
from emitters.pytorch.types import torch_type


class Legalize(LegalizingPass):
    """Brings a model to what the table has."""

    name = "legalize:pytorch"

    def legal(self, node: onnx_ir.Node) -> bool:
        """Whether the table takes it as it is."""
        return TABLE.is_legal(node)

    def chain(self, model: onnx_ir.Model) -> None:
        """Operators written out, constants folded; the rewrites."""
        if self.write_out(model, TABLE.is_written_out):
            name_nodes(model)
        fold_constants(model)
        fold_weights(model)
        if self.legalize(model, TABLE.is_legal):
            fold_rounds(model)


def lower(model: Model) -> Program:
    """The model as code. It stays as it is; weights are shared.

    Args:
        model: At the pipeline's opset.
    """
    graph = Legalize().apply(model).graph
    refusals = TABLE.foreign(graph.graph, torch_type)
    if refusals:
        return Program.refused(refusals)
    attentions = found_in(graph.graph)
    inner = {node for found in attentions.values() for node in found.inner}

    def one(context: Context) -> None:
        if context.node in attentions:
            attend(context, attentions[context.node])
        elif context.node not in inner:
            TABLE.lower(context)

    return program_of(graph.graph, one, Torch(), ("F", "Tensor"))


def unsupported_operators(model: onnx_ir.Model) -> list[Unsupported]:
    """Nodes whose operator has no entry at all: what can be said before simplifying."""
    return TABLE.unsupported(model)


__all__ = ["Legalize", "lower", "ops", "unsupported_operators"]
