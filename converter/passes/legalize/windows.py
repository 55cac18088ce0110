"""Padding around what windows slide over.

Where free sizes decide how much (SAME), it is as much as there may be, of which a Slice leaves out
what is too much in front: a Pad by computed numbers isn't had everywhere.
"""

from __future__ import annotations

import numpy as np

from converter.ir.attributes import number
from converter.ir.edit import is_op
from converter.ir.windows import Window, halves, same_total
from converter.passes.legalize.builder import Array, Builder, DataType, Value, dims
from converter.passes.legalize.formulas import Numbers


def smallest(dtype: DataType) -> Array:
    """The number that no maximum changes by."""
    limits = np.finfo if dtype.is_floating_point() else np.iinfo
    return np.asarray(limits(dtype.numpy()).min, dtype.numpy())


def bordered(b: Builder, x: Value, window: Window, value: Array | None = None) -> Value:
    """A tensor with a window's padding around it.

    Args:
        b: Where nodes go.
        x: [N, C, ...].
        window: Says how much; with SAME and free sizes, a Slice takes away what is too much.
        value: The number in the padding; None for 0.
    """
    if not window.is_padded:
        return x
    sizes, moving = dims(x)[2:], range(0)
    if window.auto:
        free = [a for a, dim in enumerate(sizes) if not isinstance(dim, int)]
        moving = range(free[0], free[-1] + 1)
        sizes = [None if axis in moving else dim for axis, dim in enumerate(sizes)]
    totals = map(same_total, sizes, window.strides, window.reach)
    pairs = [halves(total, window.auto) for total in totals]
    before, after = zip(*pairs, strict=True) if window.auto else (window.before, window.ends)
    pads = np.asarray([0, 0, *before, 0, 0, *after])
    whole = kept(b, x, b.op("Pad", x, pads, *([] if value is None else [value])))
    return kept(b, x, _begun(b, x, whole, window, moving)) if moving else whole


def _begun(b: Builder, x: Value, whole: Value, window: Window, moving: range) -> Value:
    """``whole`` from where the padding of ``x`` begins; what is too much at the end is less than
    a stride, and no window's.

        most // 2 - max(most - rest, 0) // 2 = (min(rest, most) + most is even) // 2
        most = reach - 1, one more for SAME_LOWER; rest = (size - 1) % stride
    """
    places = slice(moving[0], moving[-1] + 1)
    strides, reach = (np.asarray(part[places]) for part in (window.strides, window.reach))
    size = b.op("Shape", x, start=2 + moving[0], end=3 + moving[-1])
    stride, most, odd = (
        Numbers(b, part, DataType.INT32)
        for part in (strides, reach - 1, reach % 2 != (window.auto == "SAME_LOWER"))
    )
    rest = (Numbers(b, size, DataType.INT32) + (stride - 1)) % stride
    if (strides > reach).any():
        rest = rest.at_most(most)
    begin = (rest + odd if odd.array is not None and odd.array.any() else rest) / 2
    axes = np.asarray(moving, np.int32) + 2
    return b.op("Slice", whole, begin.value, np.full_like(axes, np.iinfo(np.int32).max), axes)


def kept(b: Builder, x: Value, moved: Value) -> Value:
    """Puts moved numbers back into the integers that they were in.

    Args:
        b: Where nodes go.
        x: The tensor that the numbers come from; a DequantizeLinear may make it.
        moved: A float tensor of numbers of ``x`` alone, of the same channel axis.

    Returns:
        ``moved`` behind QuantizeLinear and DequantizeLinear; itself where ``x`` has no integers.
    """
    maker = x.producer()
    if maker is None or not is_op(maker, "DequantizeLinear"):
        return moved
    scales, axis = maker.inputs[1:], number(maker, "axis", 1)
    stored = b.op("QuantizeLinear", moved, *scales, axis=axis)
    return b.op("DequantizeLinear", stored, *scales, axis=axis)
