"""MelWeightMatrix: a constant."""

from __future__ import annotations

import onnx_ir

from emitters.lowering.plans.mel import mel_weights
from emitters.tflite.context import Context
from emitters.tflite.registry import lowers


@lowers("MelWeightMatrix")
def mel_weight_matrix(context: Context, node: onnx_ir.Node) -> None:
    """See :mod:`emitters.lowering.plans.mel`."""
    weights = mel_weights(node, context.program.model, context.needed)
    context.give(node.outputs[0], context.constant(weights))
