"""MaxPool, AveragePool and LpPool, channels last: MAX_POOL_2D and AVERAGE_POOL_2D."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir

from emitters.tflite import build, kernels
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.ops.reals import real, stored
from emitters.tflite.ops.windows import (
    VALID,
    Window,
    bordered,
    count_along,
    is_same,
    lifted,
    lowered_back,
    number,
    padded,
    window_of,
)
from emitters.tflite.registry import CHANNELS_LAST, Refused, lowers

_Pool = Callable[[Context, Tensor, Window], Tensor]


@lowers("MaxPool", domain=CHANNELS_LAST, integer=True)
def max_pool(context: Context, node: onnx_ir.Node) -> None:
    """MAX_POOL_2D, in the type and scales of the input. Padding is the smallest number there is,
    and never wins."""
    x, output = context.tensor(node.inputs[0]), node.outputs[0]
    if x.dtype not in (DataType.FLOAT, DataType.INT8, DataType.UINT8):
        raise Refused(f"LiteRT's MAX_POOL_2D doesn't take {x.dtype.name.lower()}")
    made = _over_space(context, x, _window(node, x), _largest)
    _give(context, output, made)


@lowers("AveragePool", domain=CHANNELS_LAST, integer=True)
def average_pool(context: Context, node: onnx_ir.Node) -> None:
    """AVERAGE_POOL_2D. With padding that counts it is of the padded input; with padding that
    doesn't, it is TensorFlow's SAME, or that of zeros around divided by that of ones.

    LiteRT's kernel takes the input's scales for the output's: it computes on integers only where
    they are the same.
    """
    x, output = context.tensor(node.inputs[0]), node.outputs[0]
    window, quant = _window(node, x), output.meta.get(QUANT)
    counted = bool(number(node, "count_include_pad", 0))
    same = x.quant is not None and x.quant.same(quant) and x.dtype == output.dtype
    if not (same and x.rank < 5 and _is_whole(x, window, counted)):
        x = real(context, x)
    if x.quant is None:
        _need_floats(x)

    def pool(context: Context, x: Tensor, window: Window) -> Tensor:
        return _mean(context, x, window, counted)

    made = _over_space(context, x, window, pool)
    _give(context, output, made)


@lowers("LpPool", domain=CHANNELS_LAST)
def lp_pool(context: Context, node: onnx_ir.Node) -> None:
    """(sum |x|^p)^(1/p): of an average over padding that counts, times the window's size."""
    x, order = context.tensor(node.inputs[0]), number(node, "p", 2)
    _need_floats(x)
    powers = power(context, x, order)

    def pool(context: Context, x: Tensor, window: Window) -> Tensor:
        whole = bordered(context, x, window) if window.is_padded else x
        mean = _plain_mean(context, whole, window, VALID)
        return build.binary(
            context, "MUL", mean, build.scalar(context, float(np.prod(window.kernel)), mean)
        )

    made = _over_space(context, powers, _window(node, x), pool)
    _give(context, node.outputs[0], root(context, made, order))


def _give(context: Context, output: onnx_ir.Value, made: Tensor) -> None:
    """Makes ``made`` the output, with its scales, and with the names that ONNX has for free
    dimensions."""
    made = stored(context, made, context.dtype(output), output.meta.get(QUANT))
    if not made.is_static and made.rank == len(context.shape(output)):
        made.shape = context.shape(output)
    context.give(output, made)


def power(context: Context, x: Tensor, order: int) -> Tensor:
    """|x|^order, of reals."""
    if order == 2:
        return build.binary(context, "MUL", x, x)
    size = build.unary(context, "ABS", x)
    if order == 1:
        return size
    return build.binary(context, "POW", size, build.scalar(context, order, x))


def root(context: Context, x: Tensor, order: int) -> Tensor:
    """x^(1/order), of what isn't negative."""
    if order == 1:
        return x
    if order == 2:
        return build.unary(context, "SQRT", x)
    return build.binary(context, "POW", x, build.scalar(context, 1.0 / order, x))


# -- spatial axes ------------------------------------------------------------------------


def _window(node: onnx_ir.Node, x: Tensor) -> Window:
    return window_of(node, x.shape[1:-1], list(node.attributes["kernel_shape"].as_ints()))


def _over_space(context: Context, x: Tensor, window: Window, pool: _Pool) -> Tensor:
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


def _pooled_shape(x: Tensor, window: Window) -> tuple[int | str, ...]:
    inner = [count_along(size, axis, window) for axis, size in enumerate(x.shape[1:3])]
    return (x.shape[0], *inner, x.shape[3])


def _bare(window: Window) -> Window:
    """The window over what is padded already."""
    nothing = (0,) * len(window.kernel)
    return Window(window.kernel, window.strides, window.dilations, nothing, nothing)


def _kernel(context: Context, op: str, x: Tensor, window: Window, padding: int) -> Tensor:
    """MAX_POOL_2D or AVERAGE_POOL_2D; without padding (VALID), ``x`` has it already."""
    shape = _pooled_shape(x, _bare(window) if padding == VALID else window)
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


def _largest(context: Context, x: Tensor, window: Window) -> Tensor:
    if all(d == 1 for d in window.dilations):
        x, padding = padded(context, x, window, smallest(x))
        return _kernel(context, "MAX_POOL_2D", x, window, padding)
    if window.is_padded:
        x = bordered(context, x, window, smallest(x))
    for axis in (0, 1):
        x = _largest_along(context, x, window, axis)
    return x


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
    shape[axis + 1] = count_along(x.shape[axis + 1], axis, _bare(window))
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


# -- means -------------------------------------------------------------------------------


def _need_floats(x: Tensor) -> None:
    if x.dtype != DataType.FLOAT:
        raise Refused(f"LiteRT pools no {x.dtype.name.lower()} without scales")


def _is_whole(x: Tensor, window: Window, counted: bool) -> bool:
    """Whether one AVERAGE_POOL_2D does it."""
    if any(d != 1 for d in window.dilations):
        return False
    if not window.is_padded or (counted and not any(window.extra)):
        return True
    return not counted and is_same(x.shape[1:-1], window)


def _mean(context: Context, x: Tensor, window: Window, counted: bool) -> Tensor:
    dense = all(d == 1 for d in window.dilations)
    if not window.is_padded:
        return _plain_mean(context, x, window, VALID)
    if not counted and dense and is_same(x.shape[1:3], window):
        return _plain_mean(context, x, window, 0)
    made = _plain_mean(context, bordered(context, x, window), window, VALID)
    if counted and not any(window.extra):
        return made
    return build.binary(context, "DIV", made, _shares(context, x, window, counted))


def _plain_mean(context: Context, x: Tensor, window: Window, padding: int) -> Tensor:
    """The mean over a window whose padding counts or is TensorFlow's; with dilations it is a
    convolution of each channel with 1 / size."""
    if all(d == 1 for d in window.dilations):
        return _kernel(context, "AVERAGE_POOL_2D", x, window, padding)
    channels = x.shape[3]
    if not isinstance(channels, int):
        raise Refused("an average with dilations over a free number of channels")
    size = float(np.prod(window.kernel))
    weights = np.full((1, *window.kernel, channels), 1 / size, np.float32)
    options = {
        "padding": VALID,
        "strideH": window.strides[0],
        "strideW": window.strides[1],
        "depthMultiplier": 1,
        "dilationHFactor": window.dilations[0],
        "dilationWFactor": window.dilations[1],
        "fusedActivationFunction": 0,
    }
    bias = context.constant(np.zeros(channels, np.float32))
    inputs = [x, context.constant(weights), bias]
    shape = _pooled_shape(x, _bare(window))
    return context.emit("DEPTHWISE_CONV_2D", inputs, shape, options=options)


def _shares(context: Context, x: Tensor, window: Window, counted: bool) -> Tensor:
    """Which part of each window counts, [1, H', W', 1]: the mean of ones amid zeros."""
    if all(isinstance(size, int) for size in x.shape[1:3]):
        return context.constant(_known_shares(x, window, counted))
    ones = context.emit(
        "FILL",
        [context.sizes((1, *x.shape[1:3], 1)), context.constant(np.asarray(1, np.float32))],
        (1, *x.shape[1:3], 1),
        DataType.FLOAT,
    )
    if counted:
        after = (0, *window.after, 0)
        ones = build.pad(context, ones, (0, *window.before, 0), after, 1.0)
        behind = (0, *window.extra, 0)
        whole = build.pad(context, ones, (0, 0, 0, 0), behind)
    else:
        whole = bordered(context, ones, window)
    return _plain_mean(context, whole, window, VALID)


def _known_shares(
    x: Tensor, window: Window, counted: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    shares = np.ones([1, 1, 1, 1])
    for axis, size in enumerate(x.shape[1:3]):
        assert isinstance(size, int)
        before, after = window.before[axis], window.after[axis]
        inside = np.zeros(size + before + window.ends[axis])
        inside[0 if counted else before : before + size + (after if counted else 0)] = 1
        count, k = count_along(size, axis, window), window.kernel[axis]
        assert isinstance(count, int)
        s, d = window.strides[axis], window.dilations[axis]
        along = [inside[i * s : i * s + (k - 1) * d + 1 : d].mean() for i in range(count)]
        shape = [1, 1, 1, 1]
        shape[axis + 1] = count
        shares = shares * np.asarray(along).reshape(shape)
    return shares.astype(np.float32)
