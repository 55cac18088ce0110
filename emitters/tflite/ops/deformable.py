"""DeformConv, channels last: four GATHERs, and a CONV_2D of what they give.

The image gets a border of zeros, and places further out are moved onto it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir

from emitters.lowering.plans.deformable import Deformation, deformation_of
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import Array, DataType, Tensor
from emitters.tflite.ops.convolution import no_bias, parts_of, split
from emitters.tflite.ops.windows import VALID
from emitters.tflite.registry import CHANNELS_LAST, lowers


@dataclass(frozen=True)
class Grid(Deformation):
    """What is sampled where.

    Attributes:
        batch: The input's first axis.
    """

    batch: int | str

    @property
    def samples(self) -> int:
        """For each image."""
        return self.places * self.elements * self.groups

    @property
    def row(self) -> int:
        """Groups of channels in a row of the image with its border."""
        return (self.size[1] + 3) * self.groups


@lowers("DeformConv", domain=CHANNELS_LAST)
def deform_conv(context: Context, node: onnx_ir.Node) -> None:
    """See the module. The batch may be free."""
    parts = parts_of(context, node, bias=3)
    grid = _grid(node, parts.x, parts.weights)
    found = _sampled(context, node, parts.x, grid)
    n, k, c = grid.batch, grid.elements, grid.channels
    columns = build.reshape(context, found, (n, grid.places, k, c))
    outputs = parts.weights.shape[0]
    if not isinstance(outputs, int):
        raise Refused(f"weights of a free dimension ({outputs})", "fix it (--input NAME:DIMS)")
    weights = build.transpose(context, parts.weights, (0, 2, 3, 1), parts.name)
    weights = build.reshape(context, weights, (outputs, 1, k, parts.weights.shape[1]))
    bias = parts.bias if parts.bias is not None else no_bias(context, columns, weights, outputs)
    options = {
        "padding": VALID,
        "strideH": 1,
        "strideW": 1,
        "dilationHFactor": 1,
        "dilationWFactor": 1,
        "fusedActivationFunction": 0,
    }
    inputs = [columns, weights, bias]
    made = context.emit("CONV_2D", inputs, (n, grid.places, 1, outputs), options=options)
    context.give(node.outputs[0], build.reshape(context, made, (n, *grid.out, outputs)))


def _grid(node: onnx_ir.Node, x: Tensor, weights: Tensor) -> Grid:
    batch, *dims, channels = x.shape
    found = deformation_of(node, dims, channels, weights.shape[2:])
    return Grid(found.size, found.out, found.window, found.groups, found.channels, batch)


def _sampled(context: Context, node: onnx_ir.Node, x: Tensor, grid: Grid) -> Tensor:
    """The image between its elements, times the mask: [N, samples, C / groups]."""
    n, groups = grid.batch, grid.groups
    offsets = context.tensor(node.inputs[2])
    split_up = (n, groups, grid.elements, 2, grid.places)
    apart = build.transpose(context, build.reshape(context, offsets, split_up), (3, 0, 4, 2, 1))
    halves = split(context, apart, 2, 0)
    rows, low = _axis(context, halves[0], grid, 0)
    columns, left = _axis(context, halves[1], grid, 1)
    down, across = _times(context, rows, grid.row), _times(context, columns, groups)
    first = build.binary(context, "ADD", down, across)
    numbers = np.arange(groups, dtype=np.int32).reshape(1, 1, 1, -1)
    first = build.binary(context, "ADD", first, context.constant(numbers))
    first = build.reshape(context, first, (n, grid.samples))
    total = _between(context, x, first, (low, left), grid)
    mask = context.optional(node, 4)
    if mask is None:
        return total
    shape = (n, groups, grid.elements, grid.places)
    turned = build.transpose(context, build.reshape(context, mask, shape), (0, 3, 2, 1))
    return build.binary(context, "MUL", total, _column(context, turned, grid))


def _between(
    context: Context, x: Tensor, first: Tensor, behind: tuple[Tensor, Tensor], grid: Grid
) -> Tensor:
    """The bilinear sum of four elements each.

    Args:
        x: The image.
        first: The number of the upper left one in the image with its border, [N, samples].
        behind: How far below and right of that, 0 to 1.
        grid: What is sampled where.
    """
    n, each = grid.batch, grid.each
    wide = build.pad(context, x, (0, 1, 1, 0), (0, 2, 2, 0))
    image = build.reshape(context, wide, (n, (grid.size[0] + 3) * grid.row, each))
    low, left = behind
    high, right = _rest(context, low), _rest(context, left)
    corners = [
        (0, high, right),
        (grid.groups, high, left),
        (grid.row, low, right),
        (grid.row + grid.groups, low, left),
    ]
    total = None
    for step, vertical, horizontal in corners:
        places = build.binary(context, "ADD", first, context.integers([step])) if step else first
        share = build.binary(context, "MUL", vertical, horizontal)
        options = {"axis": 1, "batchDims": 1}
        shape = (n, grid.samples, each)
        part = context.emit("GATHER", [image, places], shape, options=options)
        part = build.binary(context, "MUL", part, _column(context, share, grid))
        total = part if total is None else build.binary(context, "ADD", total, part)
    assert total is not None
    return total


def _axis(context: Context, offset: Tensor, grid: Grid, axis: int) -> tuple[Tensor, Tensor]:
    """For each sample, the row or column before it in the image with its border, int32, and how far
    behind that it is, 0 to 1: [N, places, elements, groups]."""
    shape = (grid.batch, grid.places, grid.elements, grid.groups)
    offset = build.reshape(context, offset, shape)
    place = build.binary(context, "ADD", offset, context.constant(_base(grid, axis)))
    for op, edge in (("MAXIMUM", -1), ("MINIMUM", grid.size[axis])):
        place = build.binary(context, op, place, build.scalar(context, edge, place))
    whole = build.unary(context, "FLOOR", place)
    rest = build.binary(context, "SUB", place, whole)
    number = build.cast(context, whole, DataType.INT32)
    return build.binary(context, "ADD", number, context.integers([1])), rest


def _base(grid: Grid, axis: int) -> Array:
    """Where the kernel's elements lie without offsets: [1, places, elements, 1]."""
    places = grid.element_places(axis)
    return places.reshape(1, grid.places, grid.elements, 1).astype(np.float32)


def _column(context: Context, x: Tensor, grid: Grid) -> Tensor:
    return build.reshape(context, x, (grid.batch, grid.samples, 1))


def _times(context: Context, x: Tensor, factor: int) -> Tensor:
    return build.binary(context, "MUL", x, context.integers([factor]))


def _rest(context: Context, x: Tensor) -> Tensor:
    """1 - x."""
    return build.binary(context, "SUB", build.scalar(context, 1.0, x), x)
