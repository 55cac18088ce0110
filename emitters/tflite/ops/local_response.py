"""LRN, channels last: LOCAL_RESPONSE_NORMALIZATION."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import floating
from converter.ir.refused import Refused
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType
from emitters.tflite.registry import CHANNELS_LAST, lowers


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
