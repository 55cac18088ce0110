"""GridSample: pixels of images at places that are computed."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.passes.legalize.grids import rule_of
from emitters.coreml import sizing
from emitters.coreml.algebra import Numbers, number
from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers

PADDING = {"zeros": "constant", "border": "border"}
"""``padding_mode`` of resample. What ONNX throws back at the edges of the outermost pixels is
MIL's ``symmetric``, what it throws back at their centres ``reflection``."""


def _is_of_images(node: onnx_ir.Node) -> bool:
    x = node.inputs[0]
    of_images = x is not None and x.shape is not None and len(x.shape) == 4
    return of_images and rule_of(node).mode in ("linear", "nearest")


@lowers("GridSample", legal=_is_of_images)
def grid_sample(context: Context, node: onnx_ir.Node) -> None:
    """resample. Which of two pixels ``nearest`` takes half way between them isn't documented, so
    places are rounded before."""
    x, grid = context.var(node.inputs[0]), context.var(node.inputs[1])
    rule = rule_of(node)
    border = PADDING.get(rule.padding) or ("reflection" if rule.corners else "symmetric")
    if rule.mode == "linear":
        old = context.target < 16 and context.type_of(grid) == "fp16"
        places = context.cast(grid, "fp32") if old else grid
        made = resampled(context, x, places, "bilinear", border, rule.corners)
    else:
        size, place = _width_and_height(context, x), Numbers(context, grid) + 1.0
        where = place / 2.0 * (size - 1.0) if rule.corners else (place * size - 1.0) / 2.0
        made = _at_pixels(context, x, where.round().var, border)
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
