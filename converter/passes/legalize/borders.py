"""Pad by indices: each place along an axis is taken from where the mode says.

    edge      max(min(i, n - 1), 0)
    wrap      i mod n
    reflect   |(i + n - 1) mod (2 n - 2) - (n - 1)|        i from -before to n + after
    constant  as edge, and the value where that isn't i

Negative borders cut, first.

Source: the operator page ``Pad``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.attributes import text
from converter.ir.never_negative import never_negative
from converter.ir.refused import Refused
from converter.passes.legalize.builder import (
    Array,
    Builder,
    DataType,
    Value,
    dims,
    rank,
)
from converter.passes.legalize.formulas import Numbers


def pad(b: Builder, node: onnx_ir.Node) -> Value:
    """Axis by axis; constant negative borders as a Slice and a Pad without them."""
    x, pads, mode = node.inputs[0], node.inputs[1], text(node, "mode", "constant")
    assert x is not None and pads is not None
    axes, known = b.given(3, "axes"), b.constant(pads)
    chosen = range(rank(x)) if axes is None else [int(axis) % rank(x) for axis in axes.ravel()]
    count = dims(pads)[0] if pads.shape is not None else None
    if count != 2 * len(chosen):
        raise Refused(f"{count or 'an unknown number of'} paddings for {len(chosen)} axes")
    if known is not None and (known < 0).any():
        ends = [np.maximum(-side, 0) for side in np.split(known, 2)]
        x = b.op("Slice", x, ends[0], np.where(ends[1], -ends[1], _FAR), np.asarray([*chosen]))
        return b.op("Pad", x, np.maximum(known, 0), *node.inputs[2:], mode=mode)
    for place, axis in enumerate(chosen):
        sides = []
        for index in (place, place + len(chosen)):
            side = b.op("Gather", pads, np.asarray(index)) if known is None else known[index]
            sides.append(Numbers(b, side, DataType.INT32))
        if not never_negative(pads):
            x = _cut(b, x, axis, *sides)
        if any(side.array is None or side.array > 0 for side in sides):
            before, after = (side.at_least(0) for side in sides)
            x = _padded(b, x, axis, before, after, mode)
    return x


_FAR = np.iinfo(np.int64).max

_LONG = 1024
"""Places along an axis up to which each has an index of its own."""


def _cut(b: Builder, x: Value, axis: int, before: Numbers, after: Numbers) -> Value:
    """What negative borders leave of an axis."""
    size = Numbers.of_size(b, b.size(x, axis), DataType.INT32)
    limits = ((0 - before).at_least(0), size - (0 - after).at_least(0))
    ends = (each.expanded([0]).content for each in limits)
    return b.op("Slice", x, *ends, np.asarray([axis], np.int32))


def _padded(b: Builder, x: Value, axis: int, before: Numbers, after: Numbers, mode: str) -> Value:
    n = Numbers.of_size(b, b.size(x, axis), DataType.INT32)
    total = n + before + after
    i = Numbers.counted(b, total.size(), DataType.INT32) - before
    if mode == "wrap":
        places = i % n
    elif mode == "reflect":
        last = n - 1
        places = abs((i + last) % (last + last).at_least(1) - last)
    else:
        places = i.at_most(n - 1).at_least(0)
    if mode != "constant" and places.array is not None and before.array is not None:
        at = np.asarray([0, n.content]) + before.array
        return _taken(b, x, axis, np.split(places.array.astype(np.int32), at))
    near = b.op("Gather", x, places.content, axis=axis)
    if mode != "constant":
        return near
    value, inside = b.input(2), Numbers(b, i.is_same(places), DataType.BOOL)
    other = b.number(0, x) if value is None else b.reshape(value, [])
    return b.op("Where", inside.expanded(range(1, rank(x) - axis)).content, near, other)


def _taken(b: Builder, x: Value, axis: int, parts: Sequence[Array]) -> Value:
    """What stands at known places, in front, within and behind. Of a long axis only the borders are
    taken: an index for each place would take more of a file than a small network's weights."""
    if sum(part.size for part in parts) <= _LONG:
        return b.op("Gather", x, np.concatenate(parts), axis=axis)
    low, high = (b.op("Gather", x, parts[i], axis=axis) if parts[i].size else None for i in (0, 2))
    return b.op("Concat", *(part for part in (low, x, high) if part is not None), axis=axis)


REWRITES = {"Pad": pad}
