"""Convolutions turned round: TRANSPOSE_CONV, CONV_3D_TRANSPOSE."""

from __future__ import annotations

from typing import Any

import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.layout import VALID, Window, channels_first, channels_last
from parsers.tflite.ops.convolution import attributes, window_3d
from parsers.tflite.registry import lowers
from parsers.tflite.sizes import Size, compute, size, vector

_SHAPE, _FILTERS, _INPUT, _BIAS = range(4)


@lowers("TRANSPOSE_CONV")
def transpose_conv(ctx: Context) -> None:
    """ConvTranspose. Filters are OHWI."""
    strides = (ctx.option("strideH", 1), ctx.option("strideW", 1))
    window = Window(ctx.shape(_FILTERS)[1:3], strides, (1, 1))
    _conv_transpose(ctx, ctx.weights(_FILTERS, [3, 0, 1, 2]), window)


@lowers("CONV_3D_TRANSPOSE")
def conv_3d_transpose(ctx: Context) -> None:
    """ConvTranspose. Filters are DHWOI."""
    _conv_transpose(ctx, ctx.weights(_FILTERS, [4, 3, 0, 1, 2]), window_3d(ctx))


def _conv_transpose(ctx: Context, filters: onnx_ir.Value, window: Window) -> None:
    rank = ctx.rank(_INPUT)
    sources = ctx.shape(_INPUT)[1:-1]
    targets = (ctx.integers(_SHAPE) or list(ctx.output().shape))[1:-1]
    is_known = min(*sources, *targets) >= 0
    value = ctx.add(
        "ConvTranspose",
        channels_first(ctx, ctx.value(_INPUT), rank),
        filters,
        ctx.value(_BIAS) if ctx.has(_BIAS) else None,
        **attributes(window),
        **(_known_pads(ctx, window, sources, targets) if is_known else {}),
    )
    if not is_known:
        value = _cropped(ctx, window, value)
    ctx.set(0, channels_last(ctx, ctx.activate(value), rank))


def _reaches(window: Window) -> list[int]:
    pairs = zip(window.kernel, window.dilations, strict=True)
    return [(k - 1) * dilation + 1 for k, dilation in pairs]


def _known_pads(
    ctx: Context, window: Window, sources: tuple[int, ...], targets: list[int]
) -> dict[str, Any]:
    """What is cut off in front and behind, as in the convolution that this turns round: nothing
    in front for VALID, half for SAME. What the filters don't reach is added behind."""
    before, after, more = [], [], []
    for source, target, reach, stride in zip(
        sources, targets, _reaches(window), window.strides, strict=True
    ):
        full = (source - 1) * stride + reach
        front = 0 if ctx.option("padding") == VALID else max(full - target, 0) // 2
        behind = full - front - target
        if -behind >= stride:
            ctx.refuse(f"{target} results of {source} elements, the filters reach {full}")
        before.append(front)
        after.append(max(behind, 0))
        more.append(max(-behind, 0))
    return {"pads": before + after, "output_padding": more}


def _cropped(ctx: Context, window: Window, value: onnx_ir.Value) -> onnx_ir.Value:
    """The same for sizes that are only known when it runs: cut out of the full result."""
    if any(r < s for r, s in zip(_reaches(window), window.strides, strict=True)):
        ctx.refuse("filters smaller than their stride, with results of free size")
    wanted, count = ctx.int64(_SHAPE), len(window.kernel)
    starts: list[Size] = []
    ends: list[Size] = []
    for axis, (reach, stride) in enumerate(zip(_reaches(window), window.strides, strict=True), 1):
        target = ctx.add("Gather", wanted, ctx.ints([axis]), axis=0)
        steps = compute(ctx, "Sub", size(ctx, _INPUT, axis), 1)
        full = compute(ctx, "Add", compute(ctx, "Mul", steps, stride), reach)
        surplus = compute(ctx, "Max", compute(ctx, "Sub", full, target), 0)
        start = 0 if ctx.option("padding") == VALID else compute(ctx, "Div", surplus, 2)
        starts.append(start)
        ends.append(compute(ctx, "Add", start, target))
    axes = ctx.ints(list(range(2, count + 2)))
    return ctx.add("Slice", value, vector(ctx, starts), vector(ctx, ends), axes)
