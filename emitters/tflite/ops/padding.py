"""Pad: PAD and PADV2, or GATHER: ``edge``, ``wrap`` and ``reflect`` take each place along an axis
from an index. (LiteRT's MIRROR_PAD, of one number after another, takes 10 to 20 times as long.)

    edge      min(max(i, 0), n - 1)
    wrap      i mod n
    reflect   |(i + n - 1) mod (2 n - 2) - (n - 1)|             i from -before to n + after
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context, strided
from emitters.tflite.graph import Array, DataType, Tensor, known
from emitters.tflite.registry import lowers

_MOST_AXES = 5
"""Axes that PAD and PADV2 take."""

_LONG = 1024
"""Places along an axis up to which each has an index of its own."""

_PADDED = frozenset(
    {DataType.FLOAT, DataType.UINT8, DataType.INT8, DataType.INT16, DataType.INT32,
     DataType.INT64, DataType.BOOL}
)  # fmt: skip


@lowers("Pad", integer=True)
def pad(context: Context, node: onnx_ir.Node) -> None:
    """See the module. Negative padding cuts, where it is constant."""
    x = context.tensor(node.inputs[0])
    attribute = node.attributes.get("mode")
    mode = attribute.as_string() if attribute is not None else "constant"
    axes = list(range(x.rank))
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        axes = [int(i) % x.rank for i in context.needed(node, 3, "axes").ravel()]
    pads = context.array(node.inputs[1])
    if pads is None:
        made = _at_run_time(context, node, x, axes, mode)
    else:
        before, after = _spread([int(i) for i in pads.ravel()], axes, x.rank)
        x = cut_off(context, x, before, after)
        low, high = ([max(i, 0) for i in side] for side in (before, after))
        made = _padded(context, node, x, low, high, mode)
    context.give(node.outputs[0], made)


def _spread(pads: list[int], axes: list[int], rank: int) -> tuple[list[int], list[int]]:
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        before[axis], after[axis] = pads[place], pads[place + len(axes)]
    return before, after


def _padded(
    context: Context, node: onnx_ir.Node, x: Tensor, before: list[int], after: list[int], mode: str
) -> Tensor:
    if not any(before) and not any(after):
        return x
    shape = context.shape(node.outputs[0])
    if mode == "constant":
        made = _filled(context, node, x, before, after)
    else:
        made = x
        for axis, (low, high) in enumerate(zip(before, after, strict=True)):
            size = x.shape[axis]
            if (low or high) and isinstance(size, int) and size > _LONG:
                made = _between_borders(context, made, axis, low, high, mode)
            elif low or high:
                places = _places(context, x, axis, low, high, mode)
                made = _taken(context, made, axis, places, shape[axis])
    made.shape = shape
    return made


def _filled(
    context: Context, node: onnx_ir.Node, x: Tensor, before: list[int], after: list[int]
) -> Tensor:
    if x.dtype not in _PADDED:
        raise Refused(f"PAD doesn't take {x.dtype.name.lower()}")
    if x.rank > _MOST_AXES:
        return _filled_flat(context, node, x, before, after)
    value = node.inputs[2] if len(node.inputs) > 2 else None
    stored = context.array(value)
    if value is not None and stored is None:
        pairs = np.asarray(list(zip(before, after, strict=True)), np.int32)
        fill = build.reshape(context, context.tensor(value), ())
        inputs = [x, context.constant(pairs), fill]
        return context.emit("PADV2", inputs, context.shape(node.outputs[0]))
    number = 0.0 if stored is None or stored.size == 0 else stored.item()
    if x.dtype == DataType.BOOL:
        if number:
            raise Refused("a Pad of bool with true")
        pairs = np.asarray(list(zip(before, after, strict=True)), np.int32)
        inputs = [x, context.constant(pairs)]
        return context.emit("PAD", inputs, context.shape(node.outputs[0]))
    return build.pad(context, x, before, after, number)


def _filled_flat(
    context: Context, node: onnx_ir.Node, x: Tensor, before: list[int], after: list[int]
) -> Tensor:
    """With neighbouring axes that aren't padded as one."""
    sizes = known(x.shape)
    if sizes is None:
        raise Refused(f"a Pad of {x.rank} axes, some of them free: PAD takes {_MOST_AXES}")
    groups: list[list[int]] = []
    for axis in range(x.rank):
        plain = not before[axis] and not after[axis]
        if plain and groups and not before[groups[-1][-1]] and not after[groups[-1][-1]]:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) > _MOST_AXES:
        raise Refused(f"a Pad of {x.rank} axes: PAD takes {_MOST_AXES}")
    flat = build.reshape(context, x, [int(np.prod([sizes[a] for a in g])) for g in groups])
    low, high = ([side[g[0]] for g in groups] for side in (before, after))
    made = _filled_group(context, node, flat, low, high)
    return build.reshape(context, made, context.shape(node.outputs[0]))


def _filled_group(
    context: Context, node: onnx_ir.Node, x: Tensor, before: list[int], after: list[int]
) -> Tensor:
    value = node.inputs[2] if len(node.inputs) > 2 else None
    number = 0.0 if value is None else float(context.needed(node, 2, "padding value").item())
    return build.pad(context, x, before, after, number)


def _places(
    context: Context, x: Tensor, axis: int, low: int | Tensor, high: int | Tensor, mode: str
) -> Tensor:
    """Which index each place along an axis is taken from: int32."""
    size = x.shape[axis]
    if isinstance(size, int) and isinstance(low, int) and isinstance(high, int):
        return context.constant(_indices(np.arange(-low, size + high), size, mode))
    n = build.reshape(context, context.sizes([size]), ())
    one = context.constant(np.asarray(1, np.int32))
    first, last = (_scalar(context, limit) for limit in (low, high))
    start = build.binary(context, "SUB", context.constant(np.asarray(0, np.int32)), first)
    end = build.binary(context, "ADD", n, last)
    row = context.emit("RANGE", [start, end, one], (f"{context.node}?{axis}",), DataType.INT32)
    if mode == "wrap":
        return build.binary(context, "FLOOR_MOD", row, n)
    top = build.binary(context, "SUB", n, one)
    if mode == "edge":
        zero = context.constant(np.asarray(0, np.int32))
        kept = build.binary(context, "MAXIMUM", row, zero)
        return build.binary(context, "MINIMUM", kept, top)
    period = build.binary(context, "MAXIMUM", build.binary(context, "ADD", top, top), one)
    turned = build.binary(context, "FLOOR_MOD", build.binary(context, "ADD", row, top), period)
    return build.unary(context, "ABS", build.binary(context, "SUB", turned, top))


def _between_borders(
    context: Context, x: Tensor, axis: int, low: int, high: int, mode: str
) -> Tensor:
    """Only the borders by GATHER: an index for each place of a long axis would take more of the
    file than a small network's weights."""
    size = x.shape[axis]
    assert isinstance(size, int)
    sides = []
    for start, end in ((-low, 0), (size, size + high)):
        places = context.constant(_indices(np.arange(start, end), size, mode))
        sides.append(_taken(context, x, axis, places, end - start) if end > start else None)
    parts = [part for part in (sides[0], x, sides[1]) if part is not None]
    shape = (*x.shape[:axis], low + size + high, *x.shape[axis + 1 :])
    options = {"axis": axis, "fusedActivationFunction": 0}
    return context.emit("CONCATENATION", parts, shape, quant=x.quant, options=options)


def _scalar(context: Context, limit: int | Tensor) -> Tensor:
    return context.constant(np.asarray(limit, np.int32)) if isinstance(limit, int) else limit


def _indices(places: Array, size: int, mode: str) -> Array:
    if mode == "edge":
        found = np.clip(places, 0, size - 1)
    elif mode == "wrap":
        found = places % size
    else:
        found = np.abs((places + size - 1) % max(2 * size - 2, 1) - (size - 1))
    return found.astype(np.int32)


def _taken(context: Context, x: Tensor, axis: int, places: Tensor, size: int | str) -> Tensor:
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    options = {"axis": axis, "batchDims": 0}
    return context.emit("GATHER", [x, places], shape, quant=x.quant, options=options)


def _at_run_time(
    context: Context, node: onnx_ir.Node, x: Tensor, axes: Sequence[int], mode: str
) -> Tensor:
    """With borders that a tensor holds; negative ones LiteRT refuses at run time."""
    pads = node.inputs[1]
    limits = build.cast(context, context.tensor(pads), DataType.INT32)
    shape = context.shape(node.outputs[0])
    if mode == "constant":
        return _filled_at_run_time(context, node, x, axes, limits)
    made = x
    for place, axis in enumerate(axes):
        low, high = (_picked(context, limits, index) for index in (place, place + len(axes)))
        places = _places(context, x, axis, low, high, mode)
        made = _taken(context, made, axis, places, shape[axis])
    return made


def _filled_at_run_time(
    context: Context, node: onnx_ir.Node, x: Tensor, axes: Sequence[int], limits: Tensor
) -> Tensor:
    if x.quant is not None or x.rank > _MOST_AXES or x.dtype not in _PADDED:
        raise Refused("its pads are computed at run time", "fix the sizes (--batch N, --input)")
    sides = build.transpose(context, build.reshape(context, limits, (2, len(axes))), [1, 0])
    if list(axes) != list(range(x.rank)):
        zeros = context.constant(np.zeros((1, 2), np.int32))
        options = {"axis": 0, "fusedActivationFunction": 0}
        whole = context.emit("CONCATENATION", [sides, zeros], (len(axes) + 1, 2), options=options)
        order = [list(axes).index(a) if a in axes else len(axes) for a in range(x.rank)]
        picks = {"axis": 0, "batchDims": 0}
        rows = [whole, context.integers(order)]
        sides = context.emit("GATHER", rows, (x.rank, 2), options=picks)
    value = context.optional(node, 2)
    shape = context.shape(node.outputs[0])
    if value is None:
        return context.emit("PAD", [x, sides], shape)
    return context.emit("PADV2", [x, sides, build.reshape(context, value, ())], shape)


def _picked(context: Context, limits: Tensor, index: int) -> Tensor:
    at = [context.integers([index]), context.integers([index + 1]), context.integers([1])]
    return context.emit("STRIDED_SLICE", [limits, *at], (), options=strided(shrink_axis_mask=1))


def cut_off(context: Context, x: Tensor, before: list[int], after: list[int]) -> Tensor:
    """What negative padding leaves: a STRIDED_SLICE, whose end may count from a free end."""
    if min(*before, *after, 0) >= 0:
        return x
    starts, ends = ([max(-i, 0) for i in before], [min(i, 0) for i in after])
    shape = tuple(
        dim - low + high if isinstance(dim, int) else f"{dim}-{low - high}" if low - high else dim
        for dim, low, high in zip(x.shape, starts, ends, strict=True)
    )
    mask = sum(1 << axis for axis, end in enumerate(ends) if end == 0)
    limits = [context.integers(numbers) for numbers in (starts, ends, [1] * x.rank)]
    return context.emit(
        "STRIDED_SLICE", [x, *limits], shape, quant=x.quant, options=strided(0, mask)
    )
