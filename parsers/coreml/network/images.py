"""Height and width: crop, padding, upsample, resizeBilinear, reorganizeData."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.network.convolution import borders
from parsers.coreml.network.registry import Layer, layer
from parsers.coreml.network.tensors import Network
from parsers.coreml.refusal import Refusal

_PLACES = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS")
_UPSAMPLED = ("DEFAULT", "STRICT_ALIGN_CORNERS", "UNALIGN_CORNERS")
_PADDED = {"constant": "constant", "reflection": "reflect", "replication": "edge"}
_MOST = int(np.iinfo(np.int64).max)


@layer("crop")
def crop(net: Network, at: Layer) -> onnx_ir.Value:
    """So much less on each side; or as large as the second operand, from an offset on."""
    how, x = at.parameters, at.inputs[0]
    if len(at.inputs) == 1:
        top, bottom, left, right = borders(how.cropAmounts)
        starts, ends = [top, left], [-bottom or _MOST, -right or _MOST]
    else:
        starts = [int(number) for number in how.offset] or [0, 0]
        sizes = [net.size(at.inputs[1], axis) for axis in (-2, -1)]
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    return net.node("Slice", [x, net.ints(starts), net.ints(ends), net.ints([-2, -1])])


@layer("padding")
def padding(net: Network, at: Layer) -> onnx_ir.Value:
    """A number, the mirrored image, or its border."""
    how, x = at.parameters, at.inputs[0]
    kind = how.WhichOneof("PaddingType") or "constant"
    top, bottom, left, right = borders(how.paddingAmounts)
    around = net.ints([top, left, bottom, right])
    filling = net.const(how.constant.value) if kind == "constant" else None
    given = [x, around, filling, net.ints([-2, -1])]
    return net.node("Pad", given, {"mode": _PADDED[kind]})


@layer("constantPad")
def constant_pad(net: Network, at: Layer) -> onnx_ir.Value:
    """A number before and after each axis, as much as is said."""
    how, x = at.parameters, at.inputs[0]
    if len(at.inputs) > 1 or how.padToGivenOutputSizeMode:
        raise Refusal("amounts that are computed, or sizes to pad to")
    amounts = [int(number) for number in how.padAmounts]
    around = net.ints([*amounts[::2], *amounts[1::2]])
    return net.node("Pad", [x, around, net.const(how.value)])


@layer("upsample")
def upsample(net: Network, at: Layer) -> onnx_ir.Value:
    """Whole factors by repeated pixels or between them; broken ones between them alone."""
    how, x = at.parameters, at.inputs[0]
    factors = [float(number) for number in how.fractionalScalingFactor or how.scalingFactor]
    height, width = factors or [1.0, 1.0]
    if how.mode == 0:
        named = {"scale_factor_height": height, "scale_factor_width": width}
        return net.op("upsample_nearest_neighbor", x=x, **named)
    sizes = [int(np.floor(net.size(x, -2) * height)), int(np.floor(net.size(x, -1) * width))]
    return _bilinear(net, x, sizes, _UPSAMPLED[how.linearUpsampleMode])


@layer("resizeBilinear")
def resize_bilinear(net: Network, at: Layer) -> onnx_ir.Value:
    how = at.parameters
    sizes = [int(number) for number in how.targetSize] or [1, 1]
    return _bilinear(net, at.inputs[0], sizes, _PLACES[how.mode.samplingMethod])


def _bilinear(net: Network, x: onnx_ir.Value, sizes: list[int], mode: str) -> onnx_ir.Value:
    height, width = sizes
    return net.op(
        "resize_bilinear",
        x=x,
        target_size_height=height,
        target_size_width=width,
        sampling_mode=mode,
    )


@layer("reorganizeData")
def reorganize(net: Network, at: Layer) -> onnx_ir.Value:
    """Blocks of pixels to channels, or back; pixel shuffle has another order of channels."""
    how, x = at.parameters, at.inputs[0]
    net.need_rank(x, 4)
    kind = type(how).ReorganizationType.Name(how.mode)
    block = int(how.blockSize)
    if kind == "SPACE_TO_DEPTH":
        return net.node("SpaceToDepth", [x], {"blocksize": block})
    mode = "DCR" if kind == "DEPTH_TO_SPACE" else "CRD"
    return net.node("DepthToSpace", [x], {"blocksize": block, "mode": mode})
