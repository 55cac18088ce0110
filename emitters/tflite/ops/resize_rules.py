"""How TFLite's operators find the samples of a Resize, and which do as ONNX's rules say.

Source: ``reference/resize_bilinear.h`` and ``resize_nearest_neighbor.h`` of LiteRT.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emitters.lowering.plans.resize_rules import Extent, Rule, nearest, originals
from emitters.tflite.algebra import Numbers
from emitters.tflite.graph import Array


@dataclass(frozen=True)
class Native:
    """A TFLite operator.

    Attributes:
        op: RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR.
        align, half: Its options ``alignCorners`` and ``halfPixelCenters``.
    """

    op: str
    align: bool
    half: bool


NATIVES = {
    "nearest": tuple(
        Native("RESIZE_NEAREST_NEIGHBOR", align, half)
        for align, half in ((False, False), (False, True), (True, False))
    ),
    "linear": tuple(
        Native("RESIZE_BILINEAR", align, half)
        for align, half in ((False, False), (False, True), (True, False))
    ),
}


def native_places(native: Native, size: int, out: int) -> Array:
    """Where TFLite's operators sample: indices for nearest, places within the input for linear.

    Source: ``reference/resize_bilinear.h`` and ``resize_nearest_neighbor.h``, in float32.
    """
    place = np.arange(out, dtype=np.float32)
    corners = native.align and out > 1
    step = np.float32(size - 1) / np.float32(out - 1) if corners else np.float32(size) / out
    if native.op == "RESIZE_BILINEAR":
        where = (place + np.float32(0.5)) * step - np.float32(0.5) if native.half else place * step
        return np.asarray(np.clip(where, 0, size - 1))
    where = (place + np.float32(0.5 if native.half else 0)) * step
    rounded = np.floor(where + np.float32(0.5)) if native.align else np.floor(where)
    return np.asarray(np.clip(rounded, 0, size - 1))


def same_places(rule: Rule, native: Native, axis: Extent[Numbers]) -> bool:
    """Whether TFLite's operator samples a known axis where the rule does."""
    assert axis.size.array is not None and axis.out.array is not None
    size, out = int(axis.size.array), int(axis.out.array)
    theirs, where = native_places(native, size, out), originals(rule, axis)
    if rule.mode == "nearest":
        ours = nearest(rule, axis, where).array
        return bool(np.array_equal(ours, theirs)) if ours is not None else False
    ours = where.at_least(0.0).at_most(axis.size - 1.0).array
    return ours is not None and bool(np.abs(ours - theirs).max(initial=0) <= 1e-6 * max(size, out))
