"""An ONNX model becomes PyTorch's code: prepared, then each node by its operator's entry."""

from __future__ import annotations

from converter.ir.model import Model
from emitters.code.context import Context
from emitters.code.legalizing import LegalizeToTable
from emitters.code.program import Program, program_of
from emitters.pytorch import ops
from emitters.pytorch.dialect import Torch
from emitters.pytorch.ops.attention import attend, found_in
from emitters.pytorch.registry import TABLE
from emitters.pytorch.types import torch_type


class Legalize(LegalizeToTable):
    """Brings a model to what the table has."""

    name = "legalize:pytorch"
    table = TABLE


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


__all__ = ["TABLE", "Legalize", "lower", "ops"]
