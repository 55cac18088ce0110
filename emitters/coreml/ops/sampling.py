"""GridSample: pixels of images at places that are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.passes.legalize.grids import rule_of
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers

PADDING = {"zeros": "constant", "border": "border"}
"""``padding_mode`` of resample. What ONNX throws back at the edges of the outermost pixels is
MIL's ``symmetric``, what it throws back at their centres ``reflection``."""


def _is_of_images(node: onnx_ir.Node, target: int) -> bool:
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
        where = _in_pixels(context, x, grid, corners=rule.corners)
        made = _at_pixels(context, x, context.op("round", x=where), border)
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


def _in_pixels(context: Context, x: Var, grid: Var, *, corners: bool) -> Var:
    """Places from -1 to 1, x before y, among the pixels of images, in float32."""
    sizes = [sizing.size(context, x, axis) for axis in (3, 2)]
    known = sizing.numbers(sizes)
    size: Any = np.asarray(known, np.float32)
    if known is None:
        size = context.cast(sizing.vector(context, sizes), "fp32")
    place = context.op("add", x=context.cast(grid, "fp32"), y=np.float32(1))
    if corners:
        steps = context.op("sub", x=size, y=np.float32(1))
        half = context.op("mul", x=place, y=np.float32(0.5))
        return context.op("mul", x=half, y=steps)
    place = context.op("sub", x=context.op("mul", x=place, y=size), y=np.float32(1))
    return context.op("mul", x=place, y=np.float32(0.5))
