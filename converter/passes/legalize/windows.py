"""Padding around what windows slide over.

Where free sizes decide how much (SAME), it is as much as there may be, of which a Slice takes what
there is: a Pad by computed numbers isn't had everywhere.
"""

from __future__ import annotations

import numpy as np

from converter.ir.attributes import number
from converter.ir.edit import is_op
from converter.ir.windows import Window, halves, same_total
from converter.passes.legalize.builder import Array, Builder, DataType, Value, dims, rank
from converter.passes.legalize.formulas import Numbers


def smallest(dtype: DataType) -> Array:
    """The number that no maximum changes by."""
    limits = np.finfo if dtype.is_floating_point() else np.iinfo
    return np.asarray(limits(dtype.numpy()).min, dtype.numpy())


def bordered(b: Builder, x: Value, window: Window, value: Array | None = None) -> Value:
    """``x`` [N, C, ...] with the window's padding around it: zeros, or another number."""
    if not window.is_padded:
        return x
    sides = zip(dims(x)[2:], window.strides, window.reach, strict=True)
    pairs = [halves(same_total(*side), window.auto) for side in sides]
    before, after = zip(*pairs, strict=True) if window.auto else (window.before, window.ends)
    pads = np.asarray([0, 0, *before, 0, 0, *after])
    whole = kept(b, x, b.op("Pad", x, pads, *([] if value is None else [value])))
    if not window.auto:
        return whole
    size = Numbers(b, b.op("Shape", x, start=2), DataType.INT32)
    stride, reach, most = (
        Numbers(b, np.asarray(part), DataType.INT32)
        for part in (window.strides, window.reach, before)
    )
    count = (size + (stride - 1)) / stride
    total = (count * stride + (reach - stride) - size).at_least(0)
    begin = most - (total + (window.auto == "SAME_LOWER")) / 2
    limits = (begin.value, (begin + (size + total)).value, np.arange(2, rank(x), dtype=np.int32))
    return kept(b, x, b.op("Slice", whole, *limits))


def kept(b: Builder, x: Value, moved: Value) -> Value:
    """What was made of numbers of ``x`` alone, in the integers that ``x`` has, if it has any."""
    maker = x.producer()
    if maker is None or not is_op(maker, "DequantizeLinear"):
        return moved
    scales, axis = maker.inputs[1:], number(maker, "axis", 1)
    stored = b.op("QuantizeLinear", moved, *scales, axis=axis)
    return b.op("DequantizeLinear", stored, *scales, axis=axis)
