"""convolution, pooling: of the last two axes; and their like of three."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir

from parsers.coreml.network.registry import Layer, layer
from parsers.coreml.network.tensors import Network
from parsers.coreml.network.weights import values
from parsers.coreml.refusal import Refusal

_SAME = ("same", "same_lower")
_POOLS = ("max_pool", "avg_pool", "l2_pool")
_GLOBAL = ("reduce_max", "reduce_mean", "reduce_l2_norm")


def borders(amounts: Any) -> list[int]:
    """``BorderAmounts``: before and after the height, before and after the width."""
    pairs = [(int(edge.startEdgeSize), int(edge.endEdgeSize)) for edge in amounts.borderAmounts]
    return [size for pair in pairs or [(0, 0), (0, 0)] for size in pair]


def _numbers(field: Sequence[int], default: int) -> list[int]:
    return [int(number) for number in field] or [default, default]


def _padding(how: Any, kind: str | None) -> dict[str, Any]:
    if kind == "same":
        return {"pad_type": _SAME[how.same.asymmetryMode]}
    pad = borders(how.valid.paddingAmounts)
    return {"pad_type": "custom", "pad": pad} if any(pad) else {"pad_type": "valid"}


@layer("convolution")
def convolution(net: Network, at: Layer) -> onnx_ir.Value:
    """conv, and conv_transpose."""
    how, x = at.parameters, at.inputs[0]
    net.need_rank(x, 4)
    kernel, groups = _numbers(how.kernelSize, 3), int(how.nGroups) or 1
    out, inner = int(how.outputChannels), int(how.kernelChannels)
    given = _padding(how, how.WhichOneof("ConvolutionPaddingType"))
    given |= {"strides": _numbers(how.stride, 1), "groups": groups}
    given["dilations"] = _numbers(how.dilationFactor, 1)
    given["bias"] = values(how.bias, [out]) if how.hasBias else None
    if not how.isDeconvolution:
        shape = [out, inner, *kernel]
        weight = at.inputs[1] if len(at.inputs) > 1 else values(how.weights, shape)
        return net.op("conv", x=x, weight=weight, **given)
    weight = values(how.weights, [inner, out // groups, *kernel], channels_at=1)
    found = net.op("conv_transpose", x=x, weight=weight, **given)
    wanted = [int(size) for size in how.outputShape]
    if wanted and wanted != [net.size(found, axis) for axis in (2, 3)]:
        raise Refusal("its outputShape doesn't follow from its padding")
    return found


@layer("convolution3d")
def convolution3d(net: Network, at: Layer) -> onnx_ir.Value:
    """conv of three axes."""
    how, x = at.parameters, at.inputs[0]
    net.need_rank(x, 5)
    if how.isDeconvolution:
        raise Refusal(
            "a deconvolution of three axes: the layout of its weights isn't documented clearly"
        )
    kernel = [how.kernelDepth, how.kernelHeight, how.kernelWidth]
    groups = int(how.nGroups) or 1
    shape = [how.outputChannels, how.inputChannels // groups, *kernel]
    return net.op(
        "conv",
        x=x,
        weight=values(how.weights, shape),
        bias=values(how.bias, [how.outputChannels]) if how.hasBias else None,
        strides=[how.strideDepth or 1, how.strideHeight or 1, how.strideWidth or 1],
        dilations=[how.dilationDepth or 1, how.dilationHeight or 1, how.dilationWidth or 1],
        groups=groups,
        **_padding3d(how),
    )


def _padding3d(how: Any) -> dict[str, Any]:
    kind = ("custom", "valid", "same")[how.paddingType]
    if kind != "custom":
        return {"pad_type": kind}
    names = ("Front", "Back", "Top", "Bottom", "Left", "Right")
    return {"pad_type": kind, "pad": [getattr(how, f"customPadding{name}") for name in names]}


@layer("pooling")
def pooling(net: Network, at: Layer) -> onnx_ir.Value:
    """max_pool, avg_pool, l2_pool; or a reduction of height and width."""
    how, x = at.parameters, at.inputs[0]
    if how.globalPooling:
        return net.op(_GLOBAL[how.type], x=x, axes=[-2, -1], keep_dims=True)
    net.need_rank(x, 4)
    padding = how.WhichOneof("PoolingPaddingType")
    given = _padding(how, padding)
    if padding == "includeLastPixel":
        height, width = _numbers(how.includeLastPixel.paddingAmounts, 0)
        given = {"pad_type": "custom", "pad": [height, height, width, width], "ceil_mode": True}
    if how.type == 1:
        given["exclude_padding_from_average"] = bool(how.avgPoolExcludePadding)
    kernel, strides = _numbers(how.kernelSize, 3), _numbers(how.stride, 1)
    return net.op(_POOLS[how.type], x=x, kernel_sizes=kernel, strides=strides, **given)


@layer("pooling3d")
def pooling3d(net: Network, at: Layer) -> onnx_ir.Value:
    """max_pool and avg_pool of three axes."""
    how, x = at.parameters, at.inputs[0]
    net.need_rank(x, 5)
    given = _padding3d(how)
    if how.type == 1:
        given["exclude_padding_from_average"] = bool(how.countExcludePadding)
    return net.op(
        _POOLS[how.type],
        x=x,
        kernel_sizes=[how.kernelDepth, how.kernelHeight, how.kernelWidth],
        strides=[how.strideDepth, how.strideHeight, how.strideWidth],
        **given,
    )


@layer("globalPooling3d")
def global_pooling3d(net: Network, at: Layer) -> onnx_ir.Value:
    """A reduction of depth, height and width."""
    kind = _GLOBAL[at.parameters.type]
    return net.op(kind, x=at.inputs[0], axes=[-3, -2, -1], keep_dims=True)
