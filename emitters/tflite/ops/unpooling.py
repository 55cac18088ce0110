"""MaxPool's Indices, and MaxUnpool, which takes them; channels first, as the indices count."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir

from emitters.lowering.attributes import number
from emitters.lowering.plans.windows import Window, unpooled, window_of
from emitters.lowering.refused import Refused
from emitters.tflite import build, kernels
from emitters.tflite.context import Context
from emitters.tflite.graph import Array, DataType, Tensor
from emitters.tflite.ops.pooling import smallest
from emitters.tflite.registry import lowers

MOST = 64
"""Elements of a kernel above which there would be too many operators."""


@lowers("MaxPool")
def max_pool_with_indices(context: Context, node: onnx_ir.Node) -> None:
    """Both outputs from one STRIDED_SLICE for each element of the kernel: TFLite's MAX_POOL_2D
    doesn't say where it found the maximum. Of equal ones the first counts, as in ONNX Runtime."""
    x = context.tensor(node.inputs[0])
    sizes = [dim for dim in x.shape[1:] if isinstance(dim, int)]
    if len(sizes) != x.rank - 1:
        raise Refused("Indices of a MaxPool over free dimensions", "fix them (--input NAME:DIMS)")
    window = window_of(node, x.shape[2:], list(node.attributes["kernel_shape"].as_ints()))
    if int(np.prod(window.kernel)) > MOST or x.rank > 5:
        raise Refused(
            f"Indices of a MaxPool with a kernel of {window.kernel}: up to {MOST} elements"
        )
    if number(node, "storage_order", 0) and x.rank != 4:
        raise Refused("a MaxPool with storage_order 1 that isn't of two axes")
    whole = build.pad(context, x, [0, 0, *window.before], [0, 0, *window.ends], smallest(x))
    best = where = None
    for place in product(*map(range, window.kernel)):
        found = _under(context, whole, window, place)
        here = context.constant(_numbers(node, sizes[1:], window, place, found.shape[2:]))
        if best is None or where is None:
            best, where = found, here
            continue
        better = kernels.compare(context, "GREATER", found, best)
        where = context.emit("SELECT_V2", [better, here, where], found.shape, DataType.INT64)
        best = kernels.binary(context, "MAXIMUM", best, found)
    assert best is not None and where is not None
    context.give(node.outputs[0], best)
    counted = build.binary(context, "ADD", where, _starts(context, x, sizes))
    context.give(node.outputs[1], counted)


def _under(context: Context, x: Tensor, window: Window, place: tuple[int, ...]) -> Tensor:
    """What lies under one element of the kernel, for every window: [N, C, ...]."""
    begin, end, strides = [0, 0], [0, 0], [1, 1]
    shape = list(x.shape[:2])
    for axis, step in enumerate(place):
        size, stride, reach = x.shape[axis + 2], window.strides[axis], window.reach[axis]
        assert isinstance(size, int)
        count = (size - reach) // stride + 1
        begin.append(step * window.dilations[axis])
        end.append(begin[-1] + (count - 1) * stride + 1)
        strides.append(stride)
        shape.append(count)
    options = {
        "beginMask": 0, "endMask": 3, "ellipsisMask": 0, "newAxisMask": 0, "shrinkAxisMask": 0,
        "offset": False,
    }  # fmt: skip
    inputs = [x, *(context.integers(part) for part in (begin, end, strides))]
    return context.emit("STRIDED_SLICE", inputs, shape, options=options)


def _numbers(
    node: onnx_ir.Node,
    sizes: list[int],
    window: Window,
    place: tuple[int, ...],
    counts: tuple[int | str, ...],
) -> Array:
    """The numbers within a channel of the elements under one of the kernel: [1, 1, ...], int64."""
    order = list(range(len(sizes)))
    if number(node, "storage_order", 0):
        order.reverse()
    total, factor = np.zeros([1, 1, *(1 for _ in sizes)], np.int64), 1
    for axis in reversed(order):
        count = counts[axis]
        assert isinstance(count, int)
        start = place[axis] * window.dilations[axis] - window.before[axis]
        along = np.arange(count, dtype=np.int64) * window.strides[axis] + start
        shape = [1] * (len(sizes) + 2)
        shape[axis + 2] = count
        total = total + along.reshape(shape) * factor
        factor *= sizes[axis]
    return total


def _starts(context: Context, x: Tensor, sizes: list[int]) -> Tensor:
    """The number of each channel's first element: [N, C, 1...], int64."""
    each, ones = int(np.prod(sizes[1:])), [1] * (x.rank - 2)
    channels = np.arange(sizes[0], dtype=np.int64).reshape(1, -1, *ones) * each
    batch = x.shape[0]
    if isinstance(batch, int):
        rows = np.arange(batch, dtype=np.int64).reshape(-1, 1, *ones) * each * sizes[0]
        return context.constant(rows + channels)
    count = build.reshape(context, context.size(batch), ())
    zero, one = (context.constant(np.asarray(end, np.int32)) for end in (0, 1))
    images = context.emit("RANGE", [zero, count, one], (batch,), DataType.INT32)
    wide = build.reshape(context, build.cast(context, images, DataType.INT64), (batch, 1, *ones))
    factor = context.constant(np.asarray(each * sizes[0], np.int64))
    scaled = build.binary(context, "MUL", wide, factor)
    return build.binary(context, "ADD", scaled, context.constant(channels))


@lowers("MaxUnpool")
def max_unpool(context: Context, node: onnx_ir.Node) -> None:
    """SCATTER_ND into zeros. It adds what falls on the same place, where ONNX takes one of them:
    windows must not overlap."""
    x, indices = context.tensor(node.inputs[0]), context.tensor(node.inputs[1])
    if x.dtype != DataType.FLOAT:
        raise Refused(f"a MaxUnpool of {x.dtype.name.lower()}")
    kernel = list(node.attributes["kernel_shape"].as_ints())
    window = window_of(node, x.shape[2:], kernel)
    if any(s < k for s, k in zip(window.strides, window.kernel, strict=True)):
        raise Refused("a MaxUnpool whose windows overlap: TFLite's SCATTER_ND would add them")
    inner = unpooled(window, x.shape[2:])
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        wanted = [int(size) for size in context.needed(node, 2, "output_shape")]
        if wanted[2:] != inner:
            raise Refused(f"an output_shape of {wanted[2:]} where its attributes say {inner}")
    channels = x.shape[1]
    if not isinstance(channels, int):
        raise Refused(f"a MaxUnpool of a free number of channels ({channels})")
    shape, each = (x.shape[0], channels, *inner), channels * int(np.prod(inner))
    batch = x.shape[0]
    flat = build.reshape(context, x, (_all_of(x),))
    places = build.reshape(context, indices, (_all_of(x), 1))
    total = context.sizes([batch])
    total = build.binary(context, "MUL", total, context.integers([each]))
    whole = batch * each if isinstance(batch, int) else f"{batch}*{each}"
    if isinstance(whole, int):
        total = context.integers([whole])
    places = build.cast(context, places, DataType.INT32)
    made = context.emit("SCATTER_ND", [places, flat, total], (whole,), x.dtype)
    context.give(node.outputs[0], build.reshape(context, made, shape))


def _all_of(x: Tensor) -> int | str:
    return x.size if x.size is not None else "all"
