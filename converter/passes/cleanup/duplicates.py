"""Leaves out nodes that are there twice, and keeps what is declared of outputs."""

from __future__ import annotations

import onnx_ir
import onnx_ir.passes.common as common
from onnx_ir.passes import PassResult

from converter.ir.edit import count_of


class DropDuplicates(onnx_ir.passes.InPlacePass):
    """``onnx_ir``'s common subexpressions, for models whose outputs say more than inner values.

    Where a node that gives an output goes, the output becomes what the other node gives, with
    that one's shape, of which inference may have known less than the output's declaration says.
    A Bernoulli isn't the same as another of the same input, which ``onnx_ir`` overlooks.
    """

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Changes ``model`` in place."""
        if count_of(model, "Bernoulli") > 1:
            return PassResult(model, modified=False)
        declared = [(value.type, value.shape) for value in model.graph.outputs]
        modified = common.CommonSubexpressionEliminationPass()(model).modified
        if modified:
            for value, (dtype, shape) in zip(model.graph.outputs, declared, strict=True):
                value.type = dtype
                value.shape = shape.copy() if shape is not None else None
        return PassResult(model, modified)
