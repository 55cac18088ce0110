"""Convolutions: CONV_2D, DEPTHWISE_CONV_2D, CONV_3D."""

from __future__ import annotations

from typing import Any

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.layout import Window, channels_first, channels_last, padding
from parsers.tflite.registry import lowers


@lowers("CONV_2D")
def conv_2d(ctx: Context) -> None:
    """Conv. Filters are OHWI; fewer of their channels than the input has make groups."""
    count, height, width, depth = ctx.shape(1)
    window = _window(ctx, (height, width))
    groups = _known_channels(ctx) // depth
    if groups < 1 or count % groups:
        ctx.refuse(f"{_known_channels(ctx)} input channels for filters of {depth}")
    _conv(ctx, ctx.weights(1, [0, 3, 1, 2]), window, groups)


@lowers("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(ctx: Context) -> None:
    """Conv with a group for each input channel. Filters are 1HWO, where output channel
    c * multiplier + m belongs to input channel c, as in ONNX."""
    _, height, width, count = ctx.shape(1)
    window = _window(ctx, (height, width))
    channels = _known_channels(ctx)
    if count % channels:
        ctx.refuse(f"{count} filters for {channels} input channels")
    _conv(ctx, ctx.weights(1, [3, 0, 1, 2]), window, channels)


def _window(ctx: Context, kernel: tuple[int, int]) -> Window:
    strides = (ctx.option("strideH", 1), ctx.option("strideW", 1))
    dilations = (ctx.option("dilationHFactor", 1), ctx.option("dilationWFactor", 1))
    return Window(kernel, strides, dilations)


def _known_channels(ctx: Context) -> int:
    channels = ctx.shape(0)[-1]
    if channels < 0 or ctx.rank(0) != 4:
        ctx.refuse("an input whose number of channels is free")
    return channels


def _conv(ctx: Context, filters: onnx_ir.Value, window: Window, groups: int) -> None:
    value = ctx.add(
        "Conv",
        channels_first(ctx, ctx.value(0)),
        filters,
        ctx.value(2) if ctx.has(2) else None,
        **attributes(window),
        group=groups,
        **padding(ctx, window, ctx.shape(0)[1:3]),
    )
    ctx.set(0, channels_last(ctx, ctx.activate(value)))


def attributes(window: Window) -> dict[str, Any]:
    """The window as attributes of Conv."""
    return {
        "kernel_shape": list(window.kernel),
        "strides": list(window.strides),
        "dilations": list(window.dilations),
    }


@lowers("CONV_3D")
def conv_3d(ctx: Context) -> None:
    """Conv. Filters are DHWIO."""
    window = window_3d(ctx)
    value = ctx.add(
        "Conv",
        channels_first(ctx, ctx.value(0), 5),
        ctx.weights(1, [4, 3, 0, 1, 2]),
        ctx.value(2) if ctx.has(2) else None,
        **attributes(window),
        group=1,
        **padding(ctx, window, ctx.shape(0)[1:4]),
    )
    ctx.set(0, channels_last(ctx, ctx.activate(value), 5))


def window_3d(ctx: Context) -> Window:
    """The window of CONV_3D's filters and options."""
    strides = tuple(ctx.option(f"stride{axis}", 1) for axis in "DHW")
    dilations = tuple(ctx.option(f"dilation{axis}Factor", 1) for axis in "DHW")
    return Window(ctx.shape(1)[:3], strides, dilations)
