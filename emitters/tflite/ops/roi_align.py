"""RoiAlign: the mean or maximum of pixels at places in each cell of a region."""

from __future__ import annotations

from functools import partial
from itertools import product

import onnx_ir

from emitters.lowering.plans.resize_rules import Sample
from emitters.lowering.plans.roi_align import cell_samples, regions_of
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.algebra import Numbers, extent
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.ops.sampling import merged
from emitters.tflite.registry import lowers

VALID = 1
"""``Padding`` of the schema."""


@lowers("RoiAlign")
def roi_align(context: Context, node: onnx_ir.Node) -> None:
    """GATHERs of the four pixels around each place, times their weights, then AVERAGE_POOL_2D or
    MAX_POOL_2D over the places of a cell. How many those are has to be known: with
    ``sampling_ratio`` 0 it depends on each region's size.

    ONNX Runtime's maximum is that of the four weighted pixels of all places, and not of the
    interpolated values (``roialign.cc``); so it is here.
    """
    x, rois, batch = context.tensors(node)
    if x.dtype != DataType.FLOAT:
        raise Refused(f"a RoiAlign of {x.dtype.name.lower()}")
    regions = regions_of(node)
    height, width, ratio = regions.height, regions.width, regions.ratio
    count = rois.shape[0]
    spec = ((count,), DataType.FLOAT, None)
    left, top, right, bottom = (
        Numbers(context, tensor).reshaped((count, 1))
        for tensor in context.emit_many("UNPACK", [rois], [spec] * 4, options={"num": 4, "axis": 1})
    )
    number_of = partial(Numbers, context)
    tall = extent(context, x.shape[2])
    rows = cell_samples(regions, (top, bottom), height, tall, number_of)
    wide = extent(context, x.shape[3])
    columns = cell_samples(regions, (left, right), width, wide, number_of)
    image = build.transpose(context, x, [0, 2, 3, 1])
    image = merged(context, image, 0, 3)
    first = _first(context, batch, x)
    total: Numbers | None = None
    for row, column in product(rows, columns):
        part = _pixels(context, image, first, row, column, x)
        total = part if total is None else total.at_least(part) if regions.largest else total + part
    assert total is not None
    options = {
        "padding": VALID, "filterHeight": ratio, "filterWidth": ratio, "strideH": ratio,
        "strideW": ratio, "fusedActivationFunction": 0,
    }  # fmt: skip
    made = context.emit(
        "MAX_POOL_2D" if regions.largest else "AVERAGE_POOL_2D",
        [total.tensor],
        (count, height, width, x.shape[1]),
        options=options,
    )
    context.give(node.outputs[0], build.transpose(context, made, [0, 3, 1, 2]))


def _first(context: Context, batch: Tensor, x: Tensor) -> Tensor:
    """The first pixel of each region's image among those of all: int32 [regions, 1, 1]."""
    area = extent(context, x.shape[2]) * extent(context, x.shape[3])
    number = build.cast(context, batch, DataType.INT32)
    made = build.binary(context, "MUL", number, area.integers())
    return build.reshape(context, made, (batch.shape[0], 1, 1))


def _pixels(
    context: Context,
    image: Tensor,
    first: Tensor,
    row: Sample[Numbers],
    column: Sample[Numbers],
    x: Tensor,
) -> Numbers:
    """Pixels times their weights: [regions, rows, columns, C]."""
    count, high = row.index.shape
    wide = column.index.shape[1]
    width = extent(context, x.shape[3]).integers()
    rows = build.reshape(context, row.index.integers(), (count, high, 1))
    columns = build.reshape(context, column.index.integers(), (count, 1, wide))
    index = build.binary(context, "MUL", rows, width)
    index = build.binary(context, "ADD", index, first)
    index = build.binary(context, "ADD", index, columns)
    options = {"axis": 0, "batchDims": 0}
    shape = (*index.shape, image.shape[-1])
    pixels = context.emit("GATHER", [image, index], shape, options=options)
    weight = row.weight.reshaped((count, high, 1, 1)) * column.weight.reshaped((count, 1, wide, 1))
    return Numbers(context, pixels) * weight
