"""LRN, channels last: LOCAL_RESPONSE_NORMALIZATION, or means along the channels."""

from __future__ import annotations

import onnx_ir

from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.ops.windows import VALID
from emitters.tflite.registry import CHANNELS_LAST, Refused, lowers


@lowers("LRN", domain=CHANNELS_LAST)
def lrn(context: Context, node: onnx_ir.Node) -> None:
    """x / (bias + alpha / size * (sum of squares near it))^beta.

    TFLite's operator has a radius to both sides, and alpha for each square: it takes odd sizes.
    For even ones ONNX has one channel more behind than before; there the sum is size times an
    AVERAGE_POOL_2D of [N, ..., C, 1] along C, padded.
    """
    x = context.tensor(node.inputs[0])
    if x.dtype != DataType.FLOAT:
        raise Refused(f"an LRN of {x.dtype.name.lower()}")
    size = node.attributes["size"].as_int()
    alpha, beta = _float(node, "alpha", 1e-4), _float(node, "beta", 0.75)
    bias = _float(node, "bias", 1.0)
    if size % 2 == 1 and x.rank == 4:
        options = {"radius": size // 2, "bias": bias, "alpha": alpha / size, "beta": beta}
        made = context.emit("LOCAL_RESPONSE_NORMALIZATION", [x], x.shape, options=options)
        context.give(node.outputs[0], made)
        return
    mean = _mean_square(context, x, size)
    near = build.binary(context, "MUL", mean, build.scalar(context, alpha, x))
    near = build.binary(context, "ADD", near, build.scalar(context, bias, x))
    power = build.binary(context, "POW", near, build.scalar(context, -beta, x))
    context.give(node.outputs[0], build.binary(context, "MUL", x, power))


def _mean_square(context: Context, x: Tensor, size: int) -> Tensor:
    """The mean of ``size`` squares along the last axis, nothing beyond its ends."""
    channels = x.shape[-1]
    count = x.size // channels if x.size is not None and isinstance(channels, int) else "places"
    if not isinstance(channels, int):
        raise Refused(f"an LRN of a free number of channels ({channels})")
    square = build.binary(context, "MUL", x, x)
    flat = build.reshape(context, square, (count, 1, channels, 1))
    before = (size - 1) // 2
    wide = build.pad(context, flat, (0, 0, before, 0), (0, 0, size - 1 - before, 0))
    options = {
        "padding": VALID,
        "filterHeight": 1,
        "filterWidth": size,
        "strideH": 1,
        "strideW": 1,
        "fusedActivationFunction": 0,
    }
    mean = context.emit("AVERAGE_POOL_2D", [wide], flat.shape, options=options)
    return build.reshape(context, mean, x.shape)


def _float(node: onnx_ir.Node, name: str, default: float) -> float:
    attribute = node.attributes.get(name)
    return attribute.as_float() if attribute is not None else default
