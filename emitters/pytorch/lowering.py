"""An ONNX model becomes PyTorch's code: prepared, then each node by its operator's entry."""

from __future__ import annotations

import onnx_ir

from converter.errors import Unsupported
from converter.ir.edit import add_constant, constant_tensor, is_op
from converter.ir.model import Model
from converter.ir.refused import Refused
from converter.passes.legalize import REWRITES, why_illegal
from converter.passes.legalize.chain import LegalizingPass
from emitters.code.context import Context
from emitters.code.program import Program, program_of
from emitters.lowering import operators as shared
from emitters.lowering.folding import evaluated, fold_constants, fold_rounds
from emitters.lowering.never import reasons
from emitters.lowering.walking import name_nodes
from emitters.pytorch import ops
from emitters.pytorch.dialect import Torch
from emitters.pytorch.ops.attention import attend, found_in
from emitters.pytorch.registry import TABLE
from emitters.pytorch.types import torch_type

_REASONS = reasons(
    random="what PyTorch draws isn't what another generator draws: it can't be checked",
    strings="PyTorch has no tensors of strings",
    sequences="optionals and maps aren't among what modules take and give",
    training="it is for training",
)
_HINT = "replace it with operators that there are, or cut the model before it (--output)"


class Legalize(LegalizingPass):
    """Brings a model to what the table has."""

    name = "legalize:pytorch"

    def legal(self, node: onnx_ir.Node) -> bool:
        """Whether the table takes it as it is."""
        return is_legal(node)

    def chain(self, model: onnx_ir.Model) -> None:
        """Operators written out, constants folded; the rewrites."""
        if self.write_out(model, _is_written_out):
            name_nodes(model)
        fold_constants(model)
        _fold_weights(model)
        if self.legalize(model, is_legal):
            fold_rounds(model)


def _fold_weights(model: onnx_ir.Model) -> None:
    """Makes numbers of weights that are stored as integers: layers have them as they compute."""
    for node in list(model.graph):
        stored = [constant_tensor(value) for value in node.inputs]
        if is_op(node, "DequantizeLinear") and None not in stored:
            results = evaluated(node, model)
            if results is not None and not node.outputs[0].is_graph_output():
                new = add_constant(model.graph, f"{node.outputs[0].name}_folded", results[0])
                node.outputs[0].replace_all_uses_with(new)
                model.graph.remove(node, safe=True)


def is_legal(node: onnx_ir.Node) -> bool:
    """Whether the table takes a node."""
    entry = TABLE.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    return entry is not None and entry.legal(node)


def _is_written_out(node: onnx_ir.Node) -> bool:
    """Whether an operator's definition is to stand in its place; shapes aren't known yet."""
    if node.op_type == "LayerNormalization":
        return not is_legal(node)
    return node.op_type not in TABLE.keys() | REWRITES.keys()


def lower(model: Model) -> Program:
    """The model as code. It stays as it is; weights are shared.

    Args:
        model: At the pipeline's opset.
    """
    graph = Legalize().apply(model).graph
    refusals = [
        Unsupported(value.name or "", side, f"PyTorch has no tensors of {value.dtype}", _HINT)
        for side, values in (("input", graph.graph.inputs), ("output", graph.graph.outputs))
        for value in values
        if _is_foreign(value)
    ]
    if refusals:
        return Program([], {}, {}, set(), refusals)
    attentions = found_in(graph.graph)
    inner = {node for found in attentions.values() for node in found.inner}

    def one(context: Context) -> None:
        if context.node in attentions:
            attend(context, attentions[context.node])
        elif context.node not in inner:
            _lower_one(context)

    return program_of(graph.graph, one, Torch(), ("F", "Tensor"))


def _is_foreign(value: onnx_ir.Value) -> bool:
    if not isinstance(value.type, onnx_ir.TensorType) or value.dtype is None:
        return True
    try:
        torch_type(value.dtype.name.lower() if value.dtype.name != "FLOAT" else "float32")
    except Refused:
        return value.dtype not in (onnx_ir.DataType.DOUBLE,)
    return False


def _lower_one(context: Context) -> None:
    node = context.node
    if not is_legal(node):
        raise Refused(*no_lowering(node))
    TABLE[node.op_type].lower(context)


def unsupported_operators(model: onnx_ir.Model) -> list[Unsupported]:
    """Nodes whose operator has no entry at all: what can be said before simplifying."""
    return shared.unsupported_operators(model, TABLE.keys() | REWRITES.keys(), no_lowering)


def no_lowering(node: onnx_ir.Node) -> tuple[str, str]:
    """Why a node can't be written."""
    why = why_illegal(node)
    if why is not None:
        return why.reason, why.hint
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}::"
    reason = _REASONS.get(node.op_type) if domain in ("", "ai.onnx.ml::") else None
    told = f"there is no code for {domain}{node.op_type} in PyTorch" + (
        f": {reason}" if reason else ""
    )
    return told, _HINT


__all__ = ["Legalize", "is_legal", "lower", "ops", "unsupported_operators"]
