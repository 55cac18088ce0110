"""MelWeightMatrix: a constant, since a model that has one knows what it asks for."""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context
from emitters.coreml.registry import lowers
from emitters.lowering.folding import evaluated
from emitters.lowering.refused import Refused

_INPUTS = ("number of bins", "DFT length", "sample rate", "lower edge", "upper edge")


@lowers("MelWeightMatrix")
def mel_weight_matrix(context: Context, node: onnx_ir.Node) -> None:
    """What ONNX Runtime computes; only where it is an output itself hasn't it been folded."""
    for index, what in enumerate(_INPUTS):
        context.needed(node, index, what)
    results = evaluated(node, context.program.model)
    if results is None:
        raise Refused("ONNX Runtime doesn't compute it")
    context.give(node.outputs[0], context.const(results[0]))
