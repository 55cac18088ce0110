"""How ONNX's Resize finds the samples of each place along an axis, and how TFLite's do.

Source: the operator page ``Resize`` (opset 19) and ONNX Runtime's ``upsamplebase.h``, which
computes in float32 as is done here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emitters.lowering.refused import Refused
from emitters.tflite.algebra import Numbers, cubic_weights
from emitters.tflite.context import Context
from emitters.tflite.graph import Array


@dataclass(frozen=True)
class Rule:
    """The attributes of a Resize.

    Attributes:
        mode: nearest, linear or cubic.
        coordinates: ``coordinate_transformation_mode``.
        nearest: ``nearest_mode``.
        cubic_a: ``cubic_coeff_a``.
        exclude: ``exclude_outside``.
        antialias: Whether samples are spread when it gets smaller.
        extrapolation: The value outside, for ``tf_crop_and_resize``.
    """

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float = -0.75
    exclude: bool = False
    antialias: bool = False
    extrapolation: float = 0.0

    @property
    def crops(self) -> bool:
        """Whether a region is cut out."""
        return self.coordinates == "tf_crop_and_resize"


@dataclass(frozen=True)
class Extent:
    """The sizes of one axis, as numbers that are known or computed; all of no axes.

    Attributes:
        place: 0, 1, ... for each index of the result, one axis.
        size, out: Before and after.
        scale: What ONNX divides by: not always out / size.
        region: Start and end of the part that is cut out.
    """

    place: Numbers
    size: Numbers
    out: Numbers
    scale: Numbers
    region: tuple[Numbers, Numbers] | None = None


@dataclass(frozen=True)
class Sample:
    """One of the samples that are added: its index and weight for each index of the result."""

    index: Numbers
    weight: Numbers


def originals(rule: Rule, axis: Extent) -> Numbers:
    """Where each index of the result lies in the input."""
    size, out, scale, place = axis.size, axis.out, axis.scale, axis.place
    several = 1.0 - out.is_at_most(1.0)
    last = size - 1.0
    if rule.coordinates == "asymmetric":
        return place / scale
    if rule.coordinates == "half_pixel":
        return (place + 0.5) / scale - 0.5
    if rule.coordinates == "pytorch_half_pixel":
        return ((place + 0.5) / scale - 0.5) * several
    if rule.coordinates == "half_pixel_symmetric":
        adjustment = out / (scale * size)
        offset = size / 2.0 * (1.0 - adjustment)
        return offset + (place + 0.5) / scale - 0.5
    if rule.coordinates == "align_corners":
        return place * last / (out - 1.0).at_least(1.0)
    if rule.coordinates == "tf_half_pixel_for_nn":
        return (place + 0.5) / scale
    if rule.coordinates == "tf_crop_and_resize" and axis.region is not None:
        start, end = axis.region
        steps = place * (end - start) * last / (out - 1.0).at_least(1.0)
        return (start * last + steps) * several + (start + end) * 0.5 * last * (1.0 - several)
    raise Refused(f"a Resize with coordinate_transformation_mode {rule.coordinates}")


def samples(rule: Rule, axis: Extent, where: Numbers) -> list[Sample]:
    """What is added up for each place."""
    last = axis.size - 1.0
    one = Numbers(where.context, 1.0)
    if rule.mode == "nearest":
        return [Sample(_rounded(rule, where, axis).at_least(0.0).at_most(last), one)]
    if rule.mode == "linear":
        inside = where.at_least(0.0).at_most(last)
        low = inside.floor()
        part = inside - low
        return [Sample(low, 1.0 - part), Sample((low + 1.0).at_most(last), part)]
    low = where.floor()
    weights = cubic_weights(where - low, rule.cubic_a)
    indices = [low + float(offset) for offset in (-1, 0, 1, 2)]
    kept = [index.at_least(0.0).at_most(last) for index in indices]
    if rule.exclude:
        weights = [
            weight * abs(index - inside).is_at_most(0.5)
            for weight, index, inside in zip(weights, indices, kept, strict=True)
        ]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        total = total + abs(total).is_at_most(0.0)  # far outside a region, where all are 0
        weights = [weight / total for weight in weights]
    return [Sample(index, weight) for index, weight in zip(kept, weights, strict=True)]


def _rounded(rule: Rule, where: Numbers, axis: Extent) -> Numbers:
    if rule.nearest == "floor":
        return where.floor()
    if rule.nearest == "ceil":
        return where.ceil()
    if rule.nearest == "round_prefer_ceil":
        return (where + 0.5).floor()
    return (where - 0.5).ceil()


def known_extent(
    context: Context, size: int, out: int, scale: float, region: tuple[float, float] | None = None
) -> Extent:
    """Of sizes that are known."""
    ends = None
    if region is not None:
        ends = (Numbers(context, region[0]), Numbers(context, region[1]))
    return Extent(
        Numbers(context, np.arange(out)),
        Numbers(context, size),
        Numbers(context, out),
        Numbers(context, scale),
        ends,
    )


# -- TFLite's ----------------------------------------------------------------------------


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


def same_places(rule: Rule, native: Native, axis: Extent) -> bool:
    """Whether TFLite's operator samples a known axis where the rule does."""
    assert axis.size.array is not None and axis.out.array is not None
    size, out = int(axis.size.array), int(axis.out.array)
    theirs, where = native_places(native, size, out), originals(rule, axis)
    if rule.mode == "nearest":
        ours = samples(rule, axis, where)[0].index.array
        return bool(np.array_equal(ours, theirs)) if ours is not None else False
    ours = where.at_least(0.0).at_most(axis.size - 1.0).array
    return ours is not None and bool(np.abs(ours - theirs).max(initial=0) <= 1e-6 * max(size, out))
