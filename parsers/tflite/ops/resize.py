"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from parsers.tflite.context import Context
from parsers.tflite.layout import channels_first, channels_last
from parsers.tflite.model import Array
from parsers.tflite.registry import lowers
from parsers.tflite.sizes import size, vector

_LOOKED_AT = 1 << 16
"""Results in a row above which ONNX's arithmetic isn't tried beforehand."""


@lowers("RESIZE_BILINEAR")
def resize_bilinear(ctx: Context) -> None:
    """Resize, linear: align_corners, half_pixel or asymmetric coordinates."""
    if ctx.option("alignCorners", False):
        mode = "align_corners"
    else:
        mode = "half_pixel" if ctx.option("halfPixelCenters", False) else "asymmetric"
    value = _resize(ctx, ctx.value(0), mode="linear", coordinate_transformation_mode=mode)
    ctx.set(0, value)


@lowers("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(ctx: Context) -> None:
    """Resize, nearest. Where sizes are known and ONNX's arithmetic picks other elements (it
    divides by out/in, TFLite multiplies by in/out), the elements are gathered by TFLite's
    indices instead."""
    (value,) = ctx.moved(0)
    align, half = (bool(ctx.option(key, False)) for key in ("alignCorners", "halfPixelCenters"))
    sizes, sources = ctx.integers(1), ctx.shape(0)[1:3]
    if sizes is not None and min(sources) > 0 and 0 < min(sizes) <= max(sizes) <= _LOOKED_AT:
        pairs = list(zip(sources, sizes, strict=True))
        if not all(_agrees(source, target, align, half) for source, target in pairs):
            for axis, (source, target) in enumerate(pairs, 1):
                indices = ctx.ints(tflite_indices(source, target, align, half).tolist())
                value = ctx.add("Gather", value, indices, axis=axis)
            ctx.set_moved(0, value)
            return
    mode = "align_corners" if align else "half_pixel" if half else "asymmetric"
    nearest = "floor" if mode == "asymmetric" else "round_prefer_ceil"
    attributes = {"mode": "nearest", "nearest_mode": nearest}
    value = _resize(ctx, value, **attributes, coordinate_transformation_mode=mode)
    ctx.set_moved(0, value)


def _resize(ctx: Context, value: onnx_ir.Value, **attributes: Any) -> onnx_ir.Value:
    """Sizes are given for all dimensions: ONNX Runtime 1.31, when it optimizes, loses those
    that go with ``axes``."""
    found = ctx.integers(1)
    outer = [size(ctx, 0, 0), size(ctx, 0, 3)]
    if found is not None:
        sizes = vector(ctx, [*outer, *found])
    else:
        sizes = ctx.add("Concat", vector(ctx, outer), ctx.int64(1), axis=0)
    value = ctx.add("Resize", channels_first(ctx, value), None, None, sizes, **attributes)
    return channels_last(ctx, value)


def tflite_indices(source: int, target: int, align: bool, half: bool) -> Array:
    """Which element each result is, int64 [target] (kernel reference_ops::GetNearestNeighbor).

    Args:
        source: The dimension before.
        target: The dimension after.
        align: The option `align_corners`.
        half: The option `half_pixel_centers`.
    """
    if align and target > 1:
        scale = np.float32(source - 1) / np.float32(target - 1)
    else:
        scale = np.float32(source) / np.float32(target)
    places = (np.arange(target, dtype=np.float32) + np.float32(0.5 if half else 0)) * scale
    # TFLite's round goes away from zero, and these aren't negative
    chosen = np.floor(places + np.float32(0.5)) if align else np.floor(places)
    indices: Array = np.minimum(chosen, source - 1).astype(np.int64)
    return indices


def _agrees(source: int, target: int, align: bool, half: bool) -> bool:
    """Whether ONNX's Resize, computed in float32, picks the same elements."""
    scale = np.float32(target) / np.float32(source)
    out = np.arange(target, dtype=np.float32)
    if align:
        last = np.float32(source - 1)
        places = out * last / np.float32(target - 1) if target > 1 else out * 0
    elif half:
        places = (out + np.float32(0.5)) / scale - np.float32(0.5)
    else:
        places = out / scale
    chosen = np.floor(places) if not (align or half) else np.floor(places + np.float32(0.5))
    picked = np.clip(chosen, 0, source - 1).astype(np.int64)
    return np.array_equal(picked, tflite_indices(source, target, align, half))
