"""LayerNormalization, and LRN with channels last; others are simpler operators before."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import floating, number
from converter.ir.refused import Refused
from emitters.lowering.channels_last import CHANNELS_LAST
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor
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


@lowers("LRN", domain=CHANNELS_LAST)
def lrn(context: Context, node: onnx_ir.Node) -> None:
    """x / (bias + alpha / size * (sum of squares near it))^beta.

    TFLite's operator has a radius to both sides, and alpha for each square. Images and odd sizes
    are what ONNX Runtime takes too.
    """
    x, size = context.tensor(node.inputs[0]), node.attributes["size"].as_int()
    if x.dtype != DataType.FLOAT or x.rank != 4 or size % 2 == 0:
        raise Refused(
            f"an LRN of {x.dtype.name.lower()} of {x.rank} axes over {size} channels: TFLite's is "
            "of float32, four axes and an odd number of channels"
        )
    options = {
        "radius": size // 2,
        "bias": floating(node, "bias", 1.0),
        "alpha": floating(node, "alpha", 1e-4) / size,
        "beta": floating(node, "beta", 0.75),
    }
    made = context.emit("LOCAL_RESPONSE_NORMALIZATION", [x], x.shape, options=options)
    context.give(node.outputs[0], made)
