"""RoiAlign: the mean or maximum of pixels at places in each cell of a region."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import onnx_ir

from emitters.coreml import sizing
from emitters.coreml.algebra import Numbers, number
from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers
from emitters.lowering.plans.resize_rules import Sample
from emitters.lowering.plans.roi_align import cell_samples, regions_of


@lowers("RoiAlign")
def roi_align(context: Context, node: onnx_ir.Node) -> None:
    """gathers of the four pixels around each place, times their weights, then avg_pool or max_pool
    over the places of a cell. How many those are has to be known: with ``sampling_ratio`` 0 it
    depends on each region's size.

    ONNX Runtime's maximum is that of the four weighted pixels of all places, and not of the
    interpolated values (``roialign.cc``); so it is here.
    """
    x, rois, batch = (context.var(value) for value in node.inputs[:3])
    regions = regions_of(node)
    left, top, right, bottom = (_coordinate(context, rois, which) for which in range(4))
    number_of = partial(Numbers, context)
    tall = number(context, sizing.size(context, x, 2))
    rows = cell_samples(regions, (top, bottom), regions.height, tall, number_of)
    wide = number(context, sizing.size(context, x, 3))
    columns = cell_samples(regions, (left, right), regions.width, wide, number_of)
    image, first = _image(context, x, batch)
    total = None
    for row, column in product(rows, columns):
        part = _pixels(context, image, first, row, column, x)
        kind = "maximum" if regions.largest else "add"
        total = part if total is None else context.op(kind, x=total, y=part)
    total = context.op("transpose", x=total, perm=[0, 3, 1, 2])
    made = context.op(
        "max_pool" if regions.largest else "avg_pool",
        x=total,
        kernel_sizes=[regions.ratio] * 2,
        strides=[regions.ratio] * 2,
        pad_type="valid",
    )
    context.give(node.outputs[0], made)


def _coordinate(context: Context, rois: Var, which: int) -> Numbers:
    """One of four, for each region: [regions, 1]."""
    taken = context.op("gather", x=rois, indices=np.asarray([which], np.int32), axis=1)
    return Numbers(context, taken)


def _image(context: Context, x: Var, batch: Var) -> tuple[Var, Var]:
    """All pixels [N * H * W, C], and the number of the first of each region's image: int32
    [regions, 1, 1]."""
    n, channels, height, width = sizing.sizes(context, x)
    area = sizing.compute(context, "mul", height, width)
    moved = context.op("transpose", x=x, perm=[0, 2, 3, 1])
    pixels = sizing.compute(context, "mul", n, area)
    image = sizing.reshape(context, moved, [pixels, channels])
    factor = np.int32(area) if isinstance(area, int) else area
    first = context.op("mul", x=context.cast(batch, "int32"), y=factor)
    return image, context.op("expand_dims", x=first, axes=[1, 2])


def _pixels(
    context: Context,
    image: Var,
    first: Var,
    row: Sample[Numbers],
    column: Sample[Numbers],
    x: Var,
) -> Var:
    """Pixels times their weights: [regions, rows, columns, C]."""
    size = sizing.size(context, x, 3)
    width = np.int32(size) if isinstance(size, int) else size
    rows = context.op("expand_dims", x=row.index.integers(), axes=[2])
    columns = context.op("expand_dims", x=column.index.integers(), axes=[1])
    index = context.op("mul", x=rows, y=width)
    index = context.op("add", x=context.op("add", x=index, y=first), y=columns)
    pixels = context.op("gather", x=image, indices=index, axis=0)
    weight = row.weight.expanded([2, 3]) * column.weight.expanded([1, 3])
    return context.op("mul", x=pixels, y=weight.of_type(context.type_of(image)))
