"""DeformConv: resample, and a conv of what it gives.

Zeros are put behind the image
until a power of two lies between its outermost pixels: places from -1 to 1 among those are as exact
as in pixels, in whichever way a runtime goes from the one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir

from emitters.coreml import sizing
from emitters.coreml.algebra import Numbers
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.convolution import split_bias, with_bias
from emitters.coreml.ops.sampling import resampled
from emitters.coreml.ops.windows import padded
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import Size
from emitters.coreml.types import Array
from emitters.lowering.attributes import number
from emitters.lowering.plans.deformable import Deformation, deformation_of


@dataclass(frozen=True)
class Grid(Deformation):
    """What is sampled where.

    Attributes:
        batch: The input's first axis.
    """

    batch: Size

    @property
    def tall(self) -> list[int]:
        """An output for each element of the kernel, one below the other."""
        return [self.elements * self.out[0], self.out[1]]


@lowers("DeformConv")
def deform_conv(context: Context, node: onnx_ir.Node) -> None:
    """See the module. The batch may be free."""
    x, weight = context.var(node.inputs[0]), context.var(node.inputs[1])
    grid = _grid(context, node, x, weight)
    found, each = [], grid.each
    for group in range(grid.groups):
        image = x if grid.groups == 1 else _channels(context, x, group * each, each)
        found.append(_sampled(context, node, image, grid, group))
    columns = found[0] if len(found) == 1 else context.op("concat", values=found, axis=1)
    outputs, inner = (int(dim) for dim in weight.shape[:2])
    bias, later = split_bias(context.optional(node, 3), computed=context.target >= 17)
    made = context.op(
        "conv",
        x=columns,
        weight=sizing.reshape(context, weight, [outputs, inner * grid.elements, 1, 1]),
        bias=bias,
        groups=number(node, "group", 1),
        pad_type="valid",
    )
    context.give(node.outputs[0], with_bias(context, made, later))


def _grid(context: Context, node: onnx_ir.Node, x: Var, weight: Var) -> Grid:
    found = deformation_of(node, x.shape[2:], x.shape[1], weight.shape[2:])
    batch = sizing.size(context, x, 0)
    return Grid(found.size, found.out, found.window, found.groups, found.channels, batch)


def _channels(context: Context, x: Var, begin: int, count: int) -> Var:
    """Some channels of ``x``."""
    return context.op(
        "slice_by_index",
        x=x,
        begin=[0, begin, 0, 0],
        end=[0, begin + count, 0, 0],
        begin_mask=[True, False, True, True],
        end_mask=[True, False, True, True],
    )


def _sampled(context: Context, node: onnx_ir.Node, x: Var, grid: Grid, group: int) -> Var:
    """A group's channels between their elements, times the mask: [N, C * elements, H', W']."""
    offsets, steps = context.var(node.inputs[2]), 2 * grid.elements
    pairs = _channels(context, offsets, group * steps, steps)
    apart = sizing.reshape(context, pairs, [grid.batch, grid.elements, 2, grid.places])
    moved = context.op("transpose", x=apart, perm=[0, 1, 3, 2])
    moved = sizing.reshape(context, moved, [grid.batch, *grid.tall, 2])
    swapped = context.op("reverse", x=moved, axes=[3])  # ONNX has y before x
    places = Numbers(context, swapped) + Numbers(context, _base(grid))
    more = [_steps(size) + 1 - size for size in grid.size]
    wide = padded(context, x, [0, 0, 0, 0, 0, more[0], 0, more[1]], 0.0)
    halves = np.asarray([2.0 / _steps(size) for size in grid.size[::-1]])
    normal = places * Numbers(context, halves) - 1.0
    found = resampled(context, wide, normal.var, "bilinear", "constant", True)
    mask = context.optional(node, 4)
    if mask is not None:
        part = _channels(context, mask, group * grid.elements, grid.elements)
        factor = sizing.reshape(context, part, [grid.batch, 1, *grid.tall])
        found = context.op("mul", x=found, y=factor)
    depth = grid.each * grid.elements
    return sizing.reshape(context, found, [grid.batch, depth, *grid.out])


def _steps(size: int) -> int:
    """The power of two that isn't below the steps from the first pixel to the last."""
    return 1 << max(size - 2, 0).bit_length()


def _base(grid: Grid) -> Array:
    """Where the kernel's elements lie without offsets, x before y: [1, elements * H', W', 2]."""
    whole = [grid.element_places(axis).T for axis in (1, 0)]
    return np.stack(whole, axis=-1).reshape(1, *grid.tall, 2).astype(np.float32)
