"""GridSample and AffineGrid: pixels at places that are computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

import numpy as np
import onnx_ir

from emitters.lowering.plans.grid_sampling import (
    affine_dims,
    affine_places,
    grid_rule_of,
    in_pixels,
    samples_at,
)
from emitters.lowering.plans.resize_rules import Sample
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.algebra import Numbers, extent
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor, known
from emitters.tflite.registry import lowers


@lowers("GridSample")
def grid_sample(context: Context, node: onnx_ir.Node) -> None:
    """GATHER of the pixels around each place, times their weights: one for nearest, 2 an axis for
    linear, 4 for cubic."""
    x, grid = context.tensor(node.inputs[0]), context.tensor(node.inputs[1])
    if x.dtype != DataType.FLOAT or grid.dtype != DataType.FLOAT:
        raise Refused(f"a GridSample of {x.dtype.name.lower()} at {grid.dtype.name.lower()}")
    rank = x.rank - 2
    rule = grid_rule_of(node)
    if rule.mode not in ("nearest", "linear", "cubic") or (rule.mode == "cubic" and rank != 2):
        raise Refused(f"a GridSample of {rank} axes with mode {rule.mode}")
    points = merged(context, grid, 1, grid.rank - 1)
    spec = (points.shape[:2], DataType.FLOAT, None)
    options = {"num": rank, "axis": 2}
    places = context.emit_many("UNPACK", [points], [spec] * rank, options=options)[::-1]
    sizes = [extent(context, size) for size in x.shape[2:]]
    one = Numbers(context, 1.0)
    taps = [
        samples_at(rule, in_pixels(rule, place, size), size, one)
        for place, size in zip((Numbers(context, p) for p in places), sizes, strict=True)
    ]
    image = build.transpose(context, x, [0, *range(2, x.rank), 1])
    image = merged(context, image, 1, image.rank - 1)
    made = _summed(context, image, x.shape[2:], taps)
    made = _opened(context, made, 1, grid.shape[1:-1])
    context.give(
        node.outputs[0], build.transpose(context, made, [0, rank + 1, *range(1, rank + 1)])
    )


def _summed(
    context: Context, image: Tensor, dims: Sequence[int | str], taps: list[list[Sample[Numbers]]]
) -> Tensor:
    """The weighted sum of pixels [N, P, C] of an image [N, pixels, C]; taps are [N, P]."""
    columns = [[(tap.index.integers(), tap.weight) for tap in axis] for axis in taps]
    total: Numbers | None = None
    for choice in product(*columns):
        flat = _flat(context, [index for index, _ in choice], dims)
        pixels = context.emit(
            "GATHER",
            [image, flat],
            (*flat.shape, image.shape[-1]),
            options={"axis": 1, "batchDims": 1},
        )
        weight = reduce(lambda a, b: a * b, [weight for _, weight in choice])
        part = Numbers(context, pixels)
        if weight.array is None or (weight.array != 1).any():
            part = part * weight.reshaped((*weight.shape, 1))
        total = part if total is None else total + part
    assert total is not None
    return total.tensor


def _flat(context: Context, indices: list[Tensor], dims: Sequence[int | str]) -> Tensor:
    """Indices along axes of some sizes as one: int32."""
    whole = indices[0]
    for index, dim in zip(indices[1:], dims[1:], strict=True):
        size = (
            context.constant(np.asarray(dim, np.int32))
            if isinstance(dim, int)
            else build.reshape(context, context.size(dim), ())
        )
        whole = build.binary(context, "ADD", build.binary(context, "MUL", whole, size), index)
    return whole


# -- shapes ------------------------------------------------------------------------------


def merged(context: Context, x: Tensor, begin: int, end: int) -> Tensor:
    """``x`` with the axes from ``begin`` to before ``end`` as one."""
    inner = known(x.shape[begin:end])
    if inner is not None:
        size: int | str = int(np.prod(inner))
        return build.reshape(context, x, (*x.shape[:begin], size, *x.shape[end:]))
    size = "*".join(map(str, x.shape[begin:end]))
    sizes = context.sizes((*x.shape[:begin], -1, *x.shape[end:]))
    return context.emit("RESHAPE", [x, sizes], (*x.shape[:begin], size, *x.shape[end:]))


def _opened(context: Context, x: Tensor, axis: int, dims: Sequence[int | str]) -> Tensor:
    """``x`` with several axes in the place of one."""
    return build.reshape(context, x, (*x.shape[:axis], *dims, *x.shape[axis + 1 :]))


# -- AffineGrid --------------------------------------------------------------------------


@lowers("AffineGrid")
def affine_grid(context: Context, node: onnx_ir.Node) -> None:
    """FULLY_CONNECTED of the matrices with the constant places of all pixels."""
    theta, shape = context.tensor(node.inputs[0]), list(context.shape(node.outputs[0]))
    dims = affine_dims(context.array(node.inputs[1]), shape)
    if theta.dtype != DataType.FLOAT:
        raise Refused(f"an AffineGrid of {theta.dtype.name.lower()}")
    base = affine_places(node, dims)
    weights = context.constant(base.T.astype(np.float32), f"{node.name}_places")
    made = context.emit(
        "FULLY_CONNECTED",
        [theta, weights, None],
        (*theta.shape[:2], base.shape[1]),
        options={"fusedActivationFunction": 0, "keepNumDims": True},
    )
    made = build.transpose(context, made, [0, 2, 1])
    context.give(node.outputs[0], _opened(context, made, 1, dims))
