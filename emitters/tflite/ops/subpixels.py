"""ConvTranspose of two axes as a convolution of whole pixels, whose channels become smaller ones.

    y[s * i + r] = sum over t of x[i - t] * W[s * t + r]          r < s, t < T = ceil(kernel / s)

Every r has its own weights and the same x: they are channels of one CONV_2D, which DEPTH_TO_SPACE
then lays side by side. The products are those of TRANSPOSE_CONV, with some by zero where the stride
doesn't divide the kernel; XNNPACK's convolution takes a fifth to a half of the time, and takes free
sizes too, while it leaves a TRANSPOSE_CONV of a computed size to LiteRT's own kernel.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

import numpy as np

from converter.ir.windows import Window
from emitters.lowering.plans.transposed_windows import TransposedWindow
from emitters.tflite import build
from emitters.tflite.context import Context, strided
from emitters.tflite.graph import Quant, Shape, Tensor
from emitters.tflite.ops.blocks import TAKEN
from emitters.tflite.ops.convolution import Parts, Result, convolved

_MOST_WEIGHTS = 2
"""How much larger weights may become by zeros."""


def is_taken(parts: Parts, window: TransposedWindow, result: Result) -> bool:
    """Whether a ConvTranspose of two spatial axes can be, and is better so.

    Args:
        parts: The node's operands, weights as ONNX has them.
        window: Its numbers along both axes.
        result: What is asked for.
    """
    weights, bias = parts.weights, parts.bias
    constant = weights.data is not None and (bias is None or bias.data is not None)
    if not constant or parts.groups != 1 or any(d != 1 for d in window.dilations):
        return False
    rows, columns = window.strides
    taps = _taps(window)
    growth = prod(t * s / k for t, s, k in zip(taps, window.strides, window.kernel, strict=True))
    ends = (reach + added for reach, added in zip(window.reach, window.added, strict=True))
    return (
        rows in (1, columns)
        and growth <= _MOST_WEIGHTS
        and min(ends) > 0
        and result.dtype in TAKEN
        and (weights.quant is None or weights.quant.axis in (None, 1))
        and (result.quant is None or result.quant.axis is None)
    )


def by_subpixels(
    context: Context, parts: Parts, window: TransposedWindow, result: Result
) -> Tensor:
    """The result of a ConvTranspose that :func:`is_taken`.

    Args:
        context: Where it goes.
        parts: ``x`` [N, H, W, I], and weights as ONNX has them: [I, O, K, K].
        window: Its numbers.
        result: What is asked for.
    """
    taps, strides = _taps(window), window.strides
    skipped = [min(c // s, t - 1) for c, s, t in zip(window.cut, strides, taps, strict=True)]
    reached = [reach + added for reach, added in zip(window.reach, window.added, strict=True)]
    pixels = [ceil(end / s) for end, s in zip(reached, strides, strict=True)]
    before = tuple(t - 1 - skip for t, skip in zip(taps, skipped, strict=True))
    after = tuple(count - 1 for count in pixels)
    whole = Window(taps, (1, 1), (1, 1), before, after)
    moved = [a - skip for a, skip in zip(after, skipped, strict=True)]
    inner = [_plus(size, more) for size, more in zip(parts.x.shape[1:-1], moved, strict=True)]
    outputs = prod(strides) * _outputs(parts)
    wide = replace(result, shape=(parts.x.shape[0], *inner, outputs))
    made = convolved(context, _spread(parts, window), whole, wide)
    begins = [c - skip * s for c, skip, s in zip(window.cut, skipped, strides, strict=True)]
    ends = [end - count * s for end, count, s in zip(reached, pixels, strides, strict=True)]
    return _cut(context, _side_by_side(context, made, strides), begins, ends, result.shape)


def _taps(window: TransposedWindow) -> tuple[int, ...]:
    return tuple(ceil(k / s) for k, s in zip(window.kernel, window.strides, strict=True))


def _outputs(parts: Parts) -> int:
    assert parts.weights.data is not None
    return int(parts.weights.data.shape[1])


def _spread(parts: Parts, window: TransposedWindow) -> Parts:
    """Weights [I, O, K, K] as those of a Conv, [s * s * O, I, T, T], and a bias for each."""
    weights, bias = parts.weights, parts.bias
    assert weights.data is not None
    (rows, columns), (high, wide) = window.strides, _taps(window)
    inputs, outputs, *kernel = weights.data.shape
    whole = np.zeros((inputs, outputs, high * rows, wide * columns), weights.data.dtype)
    if weights.quant is not None:
        whole += weights.quant.zero_point.astype(whole.dtype).reshape(1, -1, 1, 1)
    whole[:, :, : kernel[0], : kernel[1]] = weights.data
    split = whole.reshape(inputs, outputs, high, rows, wide, columns)[:, :, ::-1, :, ::-1]
    data = split.transpose(3, 5, 1, 0, 2, 4).reshape(-1, inputs, high, wide)
    count = rows * columns
    quant = _repeated(weights.quant, count)
    turned = Tensor(weights.name, data.shape, weights.dtype, np.ascontiguousarray(data), quant)
    if bias is not None and bias.data is not None:
        data = np.tile(bias.data, count)
        bias = Tensor(bias.name, data.shape, bias.dtype, data, _repeated(bias.quant, count))
    return replace(parts, weights=turned, bias=bias)


def _repeated(quant: Quant | None, count: int) -> Quant | None:
    if quant is None or quant.axis is None:
        return quant
    scale, zero = (np.tile(numbers, count) for numbers in (quant.scale, quant.zero_point))
    return Quant(scale, zero, 0)


def _side_by_side(context: Context, x: Tensor, strides: tuple[int, ...]) -> Tensor:
    """[N, H, W, s * s * O] as [N, s * H, s * W, O]; of one row of pixels, in their order already,
    by a RESHAPE."""
    n, high, wide, channels = x.shape
    assert isinstance(channels, int)
    rows, columns = strides
    if columns == 1:
        return x
    shape = (n, _times(high, rows), _times(wide, columns), channels // (rows * columns))
    if rows == 1:
        return build.reshape(context, x, shape)
    return context.emit("DEPTH_TO_SPACE", [x], shape, quant=x.quant, options={"blockSize": rows})


def _cut(context: Context, x: Tensor, begins: list[int], ends: list[int], shape: Shape) -> Tensor:
    """Without what padding takes away."""
    if not any(begins) and not any(ends):
        x.shape = shape
        return x
    limits = ([0, *begins, 0], [0, *ends, 0], [1] * x.rank)
    mask = sum(1 << axis for axis, end in enumerate(limits[1]) if end == 0)
    inputs = [x, *(context.integers(numbers) for numbers in limits)]
    return context.emit("STRIDED_SLICE", inputs, shape, quant=x.quant, options=strided(0, mask))


def _plus(size: int | str, more: int) -> int | str:
    return size + more if isinstance(size, int) else f"{size}{more:+}" if more else size


def _times(size: int | str, factor: int) -> int | str:
    if factor == 1:
        return size
    return size * factor if isinstance(size, int) else f"({size})*{factor}"
