"""RoiAlign: the mean or maximum of pixels at places in each cell of a region.

Source: the operator's page, and ONNX Runtime's ``roialign.cc``.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir

from converter.ir.attributes import floating, number, text
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Builder, DataType, Value
from converter.passes.legalize.formulas import Numbers
from converter.passes.legalize.samples import Sample, flat_index


def roi_align(b: Builder, node: onnx_ir.Node) -> Value:
    """Gathers of the four pixels around each place, times their weights, then a pool over the
    places of a cell. How many those are has to be known: with ``sampling_ratio`` 0 it depends on
    each region's size.

    ONNX Runtime's maximum is that of the four weighted pixels of all places, and not of the
    interpolated values (``roialign.cc``); so it is here.
    """
    x, rois, batch = node.inputs[:3]
    assert x is not None and rois is not None and batch is not None
    ratio = number(node, "sampling_ratio", 0)
    if ratio <= 0:
        raise Refused("a RoiAlign with sampling_ratio 0", "export it with a fixed sampling_ratio")
    largest = text(node, "mode", "avg") == "max"
    n, channels, *sizes = b.sizes(x)
    rows, columns = (
        _cells(b, node, rois, axis, Numbers.of_size(b, size)) for axis, size in enumerate(sizes)
    )
    area = b.product(sizes)
    image = b.transpose(b.reshape(x, [n, channels, area]), [0, 2, 1])
    image = b.reshape(image, [b.product([n, area]), channels])
    first = Numbers(b, batch, DataType.INT64) * Numbers.of_size(b, area, DataType.INT64)
    total: Value | None = None
    for row, column in product(rows, columns):
        pair = row.index.expanded([2]), column.index.expanded([1])
        index = flat_index(b, pair, sizes) + first.expanded([1, 2])
        weight = row.weight.expanded([2, 3]) * column.weight.expanded([1, 3])
        part = b.op("Mul", b.op("Gather", image, index.content, axis=0), weight.of(x.dtype).content)
        total = part if total is None else b.op("Max" if largest else "Add", total, part)
    assert total is not None
    kind, window = "MaxPool" if largest else "AveragePool", [ratio, ratio]
    return b.op(kind, b.transpose(total, [0, 3, 1, 2]), kernel_shape=window, strides=window)


def _cells(
    b: Builder, node: onnx_ir.Node, rois: Value, axis: int, size: Numbers
) -> tuple[Sample, Sample]:
    """The two pixels around each place along an axis, rows first: [regions, cells * ratio]."""
    half = text(node, "coordinate_transformation_mode", "half_pixel") == "half_pixel"
    scale, ratio = floating(node, "spatial_scale", 1.0), number(node, "sampling_ratio", 0)
    cells = number(node, ("output_height", "output_width")[axis], 1)
    start, end = (
        Numbers(b, b.op("Gather", rois, np.asarray([place]), axis=1)) * scale - (0.5 * half)
        for place in (1 - axis, 3 - axis)
    )
    span = end - start if half else (end - start).at_least(1.0)
    steps = np.arange(cells)[:, None] + (np.arange(ratio) + 0.5) / ratio
    where = start + span / float(cells) * Numbers(b, steps.reshape(1, -1))
    inside = Numbers(b, -1.0).is_at_most(where) * where.is_at_most(size)
    last = size - 1.0
    where = where.at_least(0.0).at_most(last)
    low = where.floor()
    part = where - low
    return (
        Sample(low, (1.0 - part) * inside),
        Sample((low + 1.0).at_most(last), part * inside),
    )


REWRITES = {"RoiAlign": roi_align}
