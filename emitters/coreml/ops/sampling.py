"""GridSample and AffineGrid: pixels at places that are computed."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx_ir

from emitters.coreml import sizing
from emitters.coreml.algebra import Numbers, number
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.volume_sampling import sample_volume
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY, Array
from emitters.lowering.plans.grid_sampling import (
    affine_dims,
    affine_places,
    grid_rule_of,
    in_pixels,
)
from emitters.lowering.plans.resize_rules import cubic_weights
from emitters.lowering.refused import Refused

PADDING = {"zeros": "constant", "border": "border"}
"""``padding_mode`` of resample. What ONNX throws back at the edges of the outermost pixels is
MIL's ``symmetric``, what it throws back at their centres ``reflection``."""


@lowers("GridSample")
def grid_sample(context: Context, node: onnx_ir.Node) -> None:
    """resample, of images. Which of two pixels ``nearest`` takes half way between them isn't
    documented, so places are rounded before; cubic is 16 pixels times their weights."""
    x, grid = context.var(node.inputs[0]), context.var(node.inputs[1])
    rule = grid_rule_of(node)
    mode, corners = rule.mode, rule.corners
    if context.type_of(x) not in ("fp16", "fp32"):
        raise Refused("a GridSample of integers", "cast to float32 in the model")
    if len(x.shape) == 5 and mode != "cubic":
        context.give(node.outputs[0], sample_volume(context, x, grid, rule))
        return
    if len(x.shape) != 4:
        raise Refused(f"a GridSample of {len(x.shape) - 2} axes with mode {mode}")
    border = PADDING.get(rule.padding) or ("reflection" if corners else "symmetric")
    if mode == "linear":
        old = context.target < 16 and context.type_of(grid) == "fp16"
        places = context.cast(grid, "fp32") if old else grid
        made = resampled(context, x, places, "bilinear", border, corners)
    else:
        where = in_pixels(rule, Numbers(context, grid), _width_and_height(context, x))
        if mode == "nearest":
            made = _at_pixels(context, x, where.round().var, border)
        else:
            made = _cubic(context, x, where, border)
    context.give(node.outputs[0], made)


def resampled(context: Context, x: Var, places: Var, mode: str, border: str, corners: bool) -> Var:
    """resample at places from -1 to 1.

    Args:
        context: Where it is computed.
        x: [N, C, H, W].
        places: [N, H', W', 2], x before y.
        mode: ``nearest`` or ``bilinear``.
        border: ``constant`` (zeros), ``border``, ``reflection`` or ``symmetric``.
        corners: Whether -1 and 1 are the centres of the outermost pixels, not their edges.
    """
    return _sampled(context, x, places, mode, border, "normalized_minus_one_to_one", corners)


def _at_pixels(context: Context, x: Var, places: Var, border: str) -> Var:
    """resample at whole places in pixels."""
    corners = border == "reflection"
    return _sampled(context, x, places, "nearest", border, "unnormalized", corners)


def _sampled(
    context: Context, x: Var, places: Var, mode: str, border: str, kind: str, corners: bool
) -> Var:
    return context.op(
        "resample",
        x=x,
        coordinates=places,
        sampling_mode=mode,
        padding_mode=border,
        padding_value=context.number(0.0, x),
        coordinates_mode=kind,
        align_corners=corners,
    )


def _width_and_height(context: Context, x: Var) -> Numbers:
    """[W, H] of images."""
    height, width = (number(context, sizing.size(context, x, axis)) for axis in (2, 3))
    if height.array is not None and width.array is not None:
        return Numbers(context, np.asarray([width.array, height.array]))
    parts = [one.reshaped([1]).var for one in (width, height)]
    return Numbers(context, context.op("concat", values=parts, axis=0))


def _cubic(context: Context, x: Var, where: Numbers, border: str) -> Var:
    """The sum of 16 pixels around each place."""
    low = where.floor()
    weights = cubic_weights(where - low, -0.75)
    kind, total = context.type_of(x), None
    for right, down in product(range(4), repeat=2):
        step = Numbers(context, np.asarray([right - 1, down - 1]))
        pixels = _at_pixels(context, x, (low + step).var, border)
        across, along = _part(context, weights[right], 0), _part(context, weights[down], 1)
        part = context.op("mul", x=pixels, y=(across * along).of_type(kind))
        total = part if total is None else context.op("add", x=total, y=part)
    return total


def _part(context: Context, pairs: Numbers, which: int) -> Numbers:
    """One of each pair [N, H', W', 2], as [N, 1, H', W']."""
    taken = context.op("gather", x=pairs.var, indices=np.int32(which), axis=3)
    return Numbers(context, context.op("expand_dims", x=taken, axes=[1]))


# -- AffineGrid --------------------------------------------------------------------------


@lowers("AffineGrid")
def affine_grid(context: Context, node: onnx_ir.Node) -> None:
    """matmul of the matrices with the constant places of all pixels."""
    theta, shape = context.var(node.inputs[0]), context.shape(node.outputs[0])
    dims = affine_dims(context.array(node.inputs[1]), shape)
    base: Array = affine_places(node, dims).astype(NUMPY[context.type_of(theta)])
    made = context.op("matmul", x=theta, y=base)
    made = context.op("transpose", x=made, perm=[0, 2, 1])
    batch = sizing.size(context, theta, 0)
    context.give(node.outputs[0], sizing.reshape(context, made, [batch, *dims, len(dims)]))
