"""LayerNormalization; the others are written as simpler operators before (:mod:`..decompose`)."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import floating, number
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import Tensor
from emitters.tflite.ops.reduction import reduced
from emitters.tflite.registry import lowers


@lowers("LayerNormalization")
def layer_normalization(context: Context, node: onnx_ir.Node) -> None:
    """(x - mean) * rsqrt(variance + epsilon) * scale + bias, over the axes from ``axis`` on; mean
    and the inverse deviation are outputs too."""
    x, scale = context.tensor(node.inputs[0]), context.tensor(node.inputs[1])
    axes = list(range(number(node, "axis", -1) % x.rank, x.rank))
    mean = reduced(context, "MEAN", x, axes, True)
    centred = build.binary(context, "SUB", x, mean)
    variance = reduced(context, "MEAN", build.unary(context, "SQUARE", centred), axes, True)
    epsilon = build.scalar(context, floating(node, "epsilon", 1e-5), x)
    inverse = build.unary(context, "RSQRT", build.binary(context, "ADD", variance, epsilon))
    made = build.binary(context, "MUL", build.binary(context, "MUL", centred, inverse), scale)
    bias = context.optional(node, 2)
    if bias is not None:
        made = build.binary(context, "ADD", made, bias)
    results: list[Tensor] = [made, mean, inverse]
    for output, tensor in zip(node.outputs, results, strict=False):
        context.give(output, tensor)
