"""MaxPool, channels last: MAX_POOL_2D; and what all poolings are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.edit import is_used
from converter.ir.refused import Refused
from converter.ir.windows import Window, window_of
from emitters.tflite import build, kernels
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Shape, Tensor
from emitters.tflite.ops.reals import stored
from emitters.tflite.ops.windows import (
    VALID,
    bordered,
    count_along,
    lifted,
    lowered_back,
    padded,
)
from emitters.tflite.registry import CHANNELS_LAST, lowers

_Pool = Callable[[Context, Tensor, Window], Tensor]


@lowers("MaxPool", domain=CHANNELS_LAST, integer=True, legal=lambda node: not is_used(node, 1))
def max_pool(context: Context, node: onnx_ir.Node) -> None:
    """MAX_POOL_2D, in the type and scales of the input. Padding is the smallest number there is,
    and never wins."""
    x, output = context.tensor(node.inputs[0]), node.outputs[0]
    if x.dtype not in (DataType.FLOAT, DataType.INT8, DataType.UINT8, DataType.INT16):
        raise Refused(f"LiteRT's MAX_POOL_2D doesn't take {x.dtype.name.lower()}")
    made = over_space(context, x, pool_window(node, x), _largest)
    give(context, output, made)


def give(context: Context, output: onnx_ir.Value, made: Tensor) -> None:
    """Makes ``made`` the output, with its scales, and with the names that ONNX has for free
    dimensions."""
    made = stored(context, made, context.dtype(output), output.meta.get(QUANT))
    if not made.is_static and made.rank == len(context.shape(output)):
        made.shape = context.shape(output)
    context.give(output, made)


# -- spatial axes ------------------------------------------------------------------------


def pool_window(node: onnx_ir.Node, x: Tensor) -> Window:
    """A pooling's window, cut to what there is under it where padding doesn't count."""
    window = window_of(node, x.shape[1:-1], list(node.attributes["kernel_shape"].as_ints()))
    counts = bool(number(node, "count_include_pad", 0)) and any((*window.before, *window.after))
    return window if counts or window.auto else _cut(window, x.shape[1:-1])


def _cut(window: Window, sizes: Shape) -> Window:
    """The window without what reaches past the input, along axes that have but one: global means
    are written as means over more than any image has, which would be padded to as much."""
    axes = list(zip(window.kernel, window.strides, window.before, window.ends, strict=True))
    after, extra = list(window.after), list(window.extra or (0,) * len(axes))
    for axis, size in enumerate(sizes):
        kernel, _, before, end = axes[axis]
        lone = window.dilations[axis] == 1 and before + end and count_along(size, axis, window) == 1
        if lone and isinstance(size, int) and kernel > before:
            axes[axis] = (min(size, kernel - before), size, 0, 0)
            after[axis] = extra[axis] = 0
    kernels_, strides, befores, _ = zip(*axes, strict=True)
    return replace(
        window, kernel=kernels_, strides=strides, before=befores, after=tuple(after),
        extra=tuple(extra) if any(extra) else (),
    )  # fmt: skip


def over_space(context: Context, x: Tensor, window: Window, pool: _Pool) -> Tensor:
    """A pooling of two axes over one, two or three: three are the last two, then the first,
    since maxima, sums and numbers of elements come axis by axis.

        [N, D, H, W, C] -> [N * D, H, W, C] -> [N * D, H', W', C]
                        -> [N, D, H' * W', C] -> [N, D', H' * W', C] -> [N, D', H', W', C]
    """
    spatial = x.rank - 2
    if spatial == 1:
        return lowered_back(context, pool(context, lifted(context, x), window.lifted()))
    if spatial == 2:
        return pool(context, x, window)
    if spatial != 3:
        raise Refused(f"a pooling of {spatial} spatial axes: there are lowerings of up to three")
    if window.auto:
        raise Refused(f"auto_pad {window.auto} of three spatial axes, one of them free")
    n, d, h, w, c = x.shape
    flat = build.reshape(context, x, (_product(n, d), h, w, c))
    flat = pool(context, flat, window.of(slice(1, 3)))
    h, w = flat.shape[1:3]
    deep = build.reshape(context, flat, (n, d, _product(h, w), c))
    first = window.of(slice(0, 1))
    deep = pool(context, deep, _with_column(first))
    return build.reshape(context, deep, (n, deep.shape[1], h, w, c))


def _with_column(window: Window) -> Window:
    """The window over one more axis, of one element, behind its own."""
    extra = (*window.extra, 0) if window.extra else ()
    return Window(
        (*window.kernel, 1), (*window.strides, 1), (*window.dilations, 1),
        (*window.before, 0), (*window.after, 0), window.auto, extra,
    )  # fmt: skip


def _product(a: int | str, b: int | str) -> int | str:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return b if a == 1 else a if b == 1 else f"{a}*{b}"


def pooled_shape(x: Tensor, window: Window) -> Shape:
    """The shape of a pooling over H and W."""
    inner = [count_along(size, axis, window) for axis, size in enumerate(x.shape[1:3])]
    return (x.shape[0], *inner, x.shape[3])


def bare(window: Window) -> Window:
    """The window over what is padded already."""
    nothing = (0,) * len(window.kernel)
    return Window(window.kernel, window.strides, window.dilations, nothing, nothing)


def pool_kernel(context: Context, op: str, x: Tensor, window: Window, padding: int) -> Tensor:
    """MAX_POOL_2D or AVERAGE_POOL_2D; without padding (VALID), ``x`` has it already."""
    shape = pooled_shape(x, bare(window) if padding == VALID else window)
    return context.emit(
        op, [x], shape, x.dtype, quant=x.quant,
        options={
            "padding": padding,
            "filterHeight": window.kernel[0],
            "filterWidth": window.kernel[1],
            "strideH": window.strides[0],
            "strideW": window.strides[1],
            "fusedActivationFunction": 0,
        },
    )  # fmt: skip


# -- maxima ------------------------------------------------------------------------------


_ONE_PASS = 9
"""Elements of a window up to which XNNPACK's kernel takes them all at once."""


def _largest(context: Context, x: Tensor, window: Window) -> Tensor:
    """Of a large window that moves by one, the maxima of columns, then of rows: few to compare."""
    if all(d == 1 for d in window.dilations):
        windows = [window]
        large = 1 not in window.kernel and np.prod(window.kernel) > _ONE_PASS
        if large and window.strides == (1, 1):
            windows = [_line(window, axis) for axis in (0, 1)]
        for each in windows:
            x, padding = padded(context, x, each, smallest(x))
            x = pool_kernel(context, "MAX_POOL_2D", x, each, padding)
        return x
    if window.is_padded:
        x = bordered(context, x, window, smallest(x))
    for axis in (0, 1):
        x = _largest_along(context, x, window, axis)
    return x


def _line(window: Window, axis: int) -> Window:
    """What a window has along one axis."""

    def only(numbers: Sequence[int], other: int) -> tuple[int, ...]:
        return tuple(n if place == axis else other for place, n in enumerate(numbers))

    return replace(
        window,
        kernel=only(window.kernel, 1),
        strides=only(window.strides, 1),
        before=only(window.before, 0),
        after=only(window.after, 0),
        extra=only(window.extra, 0),
    )


def _largest_along(context: Context, x: Tensor, window: Window, axis: int) -> Tensor:
    """The maximum of the elements under a kernel's line, each a STRIDED_SLICE: MAX_POOL_2D has no
    dilations."""
    if window.kernel[axis] == 1 and window.strides[axis] == 1:
        return x
    slices = [sliced(context, x, window, axis, place) for place in range(window.kernel[axis])]
    made = slices[0]
    for other in slices[1:]:
        made = _maximum(context, made, other)
    return made


def _maximum(context: Context, a: Tensor, b: Tensor) -> Tensor:
    if a.quant is None:
        return kernels.binary(context, "MAXIMUM", a, b)
    return context.emit("MAXIMUM", [a, b], a.shape, quant=a.quant)


def sliced(context: Context, x: Tensor, window: Window, axis: int, place: int) -> Tensor:
    """What lies under one place of the kernel along an axis, for each window.

    Args:
        x: [N, H, W, C], padded.
        window: Its padding isn't looked at.
        axis: 0 for H, 1 for W.
        place: Which element of the kernel.
    """
    begin, end, strides = [0] * 4, [0] * 4, [1] * 4
    offset = place * window.dilations[axis]
    begin[axis + 1], strides[axis + 1] = offset, window.strides[axis]
    end[axis + 1] = offset + 1 - window.reach[axis]
    whole = 0b1111 if end[axis + 1] == 0 else 0b1111 & ~(1 << (axis + 1))
    shape = list(x.shape)
    shape[axis + 1] = count_along(x.shape[axis + 1], axis, bare(window))
    options = {
        "beginMask": 0, "endMask": whole, "ellipsisMask": 0, "newAxisMask": 0,
        "shrinkAxisMask": 0, "offset": False,
    }  # fmt: skip
    inputs = [x, *(context.integers(part) for part in (begin, end, strides))]
    return context.emit("STRIDED_SLICE", inputs, shape, quant=x.quant, options=options)


def smallest(x: Tensor) -> float:
    """The number that no maximum changes by."""
    if x.dtype == DataType.FLOAT:
        return float(np.finfo(np.float32).min)
    limits = np.iinfo(x.dtype.numpy())
    if x.quant is None:
        return int(limits.min)
    return (limits.min - int(x.quant.zero_point[0])) * float(x.quant.scale[0])
