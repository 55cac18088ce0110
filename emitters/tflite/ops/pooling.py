"""MaxPool, channels last: MAX_POOL_2D; and what all poolings are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.dims import dims_of
from converter.ir.edit import is_used
from converter.ir.refused import Refused
from converter.ir.windows import Window, window_of
from emitters.lowering.channels_last import CHANNELS_LAST
from emitters.tflite import build
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Shape, Tensor
from emitters.tflite.ops.reals import stored
from emitters.tflite.ops.windows import (
    VALID,
    count_along,
    lifted,
    lowered_back,
    padded,
)
from emitters.tflite.registry import lowers

_Pool = Callable[[Context, Tensor, Window], Tensor]


def _is_dense(node: onnx_ir.Node) -> bool:
    """Whether MAX_POOL_2D does it."""
    window = pool_window(node, dims_of(node.inputs[0])[2:])
    return not is_used(node, 1) and not window.is_dilated and is_padded_here(window)


def is_padded_here(window: Window) -> bool:
    """Whether its padding is known, or SAME_UPPER of the last two axes."""
    return not window.auto or (window.auto == "SAME_UPPER" and len(window.kernel) < 3)


@lowers("MaxPool", domain=CHANNELS_LAST, integer=True, legal=_is_dense)
def max_pool(context: Context, node: onnx_ir.Node) -> None:
    """MAX_POOL_2D, in the type and scales of the input. Padding is the smallest number there is,
    and never wins."""
    x, output = context.tensor(node.inputs[0]), node.outputs[0]
    if x.dtype not in (DataType.FLOAT, DataType.INT8, DataType.UINT8, DataType.INT16):
        raise Refused(f"LiteRT's MAX_POOL_2D doesn't take {x.dtype.name.lower()}")
    made = over_space(context, x, pool_window(node, x.shape[1:-1]), _largest)
    give(context, output, made)


def give(context: Context, output: onnx_ir.Value, made: Tensor) -> None:
    """Makes a tensor a node's output, with the scales and the names of free dimensions that ONNX
    has for it.

    Args:
        context: Where it goes.
        output: The output.
        made: The tensor.
    """
    made = stored(context, made, context.dtype(output), output.meta.get(QUANT))
    if not made.is_static and made.rank == len(context.shape(output)):
        made.shape = context.shape(output)
    context.give(output, made)


# -- spatial axes ------------------------------------------------------------------------


def pool_window(node: onnx_ir.Node, sizes: Sequence[object]) -> Window:
    """A pooling's window, cut to what there is under it where padding doesn't count."""
    window = window_of(node, sizes, list(node.attributes["kernel_shape"].as_ints()))
    counts = bool(number(node, "count_include_pad", 0)) and any((*window.before, *window.after))
    return window if counts or window.auto else _cut(window, sizes)


def _cut(window: Window, sizes: Sequence[object]) -> Window:
    """The window without what reaches past the input, along axes that have but one: global means
    are written as means over more than any image has, which would be padded to as much."""
    axes = list(zip(window.kernel, window.strides, window.before, window.ends, strict=True))
    after, extra = list(window.after), list(window.extra or (0,) * len(axes))
    for axis, size in enumerate(sizes):
        kernel, _, before, end = axes[axis]
        if window.dilations[axis] != 1 or not before + end or not isinstance(size, int):
            continue
        if kernel > before and count_along(size, axis, window) == 1:
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

    Args:
        context: Where it goes.
        x: [N, ..., C], with one to three spatial axes.
        window: Its numbers along each spatial axis.
        pool: Pools two axes.
    """
    spatial = x.rank - 2
    if spatial == 1:
        return lowered_back(context, pool(context, lifted(context, x), window.lifted()))
    if spatial == 2:
        return pool(context, x, window)
    if spatial != 3:
        raise Refused(f"a pooling of {spatial} spatial axes: Modelyard lowers up to three")
    n, d, h, w, c = x.shape
    inner, first = window.of(slice(1, 3)), window.of(slice(0, 1)).lifted(behind=True)
    if not _is_idle(inner):
        x = pool(context, build.reshape(context, x, (_product(n, d), h, w, c)), inner)
        h, w = x.shape[1:3]
    if not _is_idle(first):
        x = pool(context, build.reshape(context, x, (n, d, _product(h, w), c)), first)
        d = x.shape[1]
    return build.reshape(context, x, (n, d, h, w, c))


def _is_idle(window: Window) -> bool:
    """Whether it takes each element by itself."""
    return {*window.kernel, *window.strides} == {1} and not window.is_padded


def _product(a: int | str, b: int | str) -> int | str:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return b if a == 1 else a if b == 1 else f"{a}*{b}"


def pooled_shape(x: Tensor, window: Window) -> Shape:
    """The shape of a pooling over H and W."""
    inner = [count_along(size, axis, window) for axis, size in enumerate(x.shape[1:3])]
    return (x.shape[0], *inner, x.shape[3])


def pool_kernel(context: Context, op: str, x: Tensor, window: Window, padding: int) -> Tensor:
    """MAX_POOL_2D or AVERAGE_POOL_2D; without padding (VALID), ``x`` has it already.

    Args:
        context: Where it goes.
        op: MAX_POOL_2D or AVERAGE_POOL_2D.
        x: [N, H, W, C]; padded already where ``padding`` is VALID.
        window: Its numbers along both axes.
        padding: The schema's: SAME or VALID.
    """
    shape = pooled_shape(x, window.bare() if padding == VALID else window)
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
    windows = [window]
    large = 1 not in window.kernel and np.prod(window.kernel) > _ONE_PASS
    if large and window.strides == (1, 1):
        windows = [_line(window, axis) for axis in (0, 1)]
    for each in windows:
        x, padding = padded(context, x, each, smallest(x))
        x = pool_kernel(context, "MAX_POOL_2D", x, each, padding)
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


def smallest(x: Tensor) -> float:
    """The number that no maximum changes by."""
    if x.dtype == DataType.FLOAT:
        return float(np.finfo(np.float32).min)
    limits = np.iinfo(x.dtype.numpy())
    if x.quant is None:
        return int(limits.min)
    return (limits.min - int(x.quant.zero_point[0])) * float(x.quant.scale[0])
