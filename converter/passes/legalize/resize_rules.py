"""How ONNX's Resize finds the samples of each place along an axis.

Source: the operator page ``Resize`` (opset 19) and ONNX Runtime's ``upsamplebase.h``, which
computes in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

from converter.ir.refused import Refused
from converter.passes.legalize.formulas import Numbers
from converter.passes.legalize.samples import Sample, cubic_weights


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
    """The sizes of one axis; all of no axes but the first.

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


def nearest(rule: Rule, axis: Extent, where: Numbers) -> Numbers:
    """The index that the mode nearest takes for each place.

    Args:
        rule: How the operator rounds halves.
        axis: The sizes along the axis before and after, in elements.
        where: Places in the input, as real numbers, one for each element of the output.
    """
    return _rounded(rule, where).at_least(0.0).at_most(axis.size - 1.0)


def samples(rule: Rule, axis: Extent, where: Numbers) -> list[Sample]:
    """What linear and cubic add up for each place.

    Args:
        rule: The mode, the cubic's coefficient, and whether weights beyond the border count.
        axis: The sizes along the axis before and after, in elements.
        where: Places in the input, as real numbers, one for each element of the output.

    Returns:
        Two indices with weights for linear, four for cubic.
    """
    last = axis.size - 1.0
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
            weight * index.is_at_most(inside) * inside.is_at_most(index)
            for weight, index, inside in zip(weights, indices, kept, strict=True)
        ]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        total = total + (total * total).is_at_most(0.0)  # far outside a region, where all are 0
        weights = [weight / total for weight in weights]
    return [Sample(index, weight) for index, weight in zip(kept, weights, strict=True)]


def _rounded(rule: Rule, where: Numbers) -> Numbers:
    if rule.nearest == "floor":
        return where.floor()
    if rule.nearest == "ceil":
        return where.ceil()
    if rule.nearest == "round_prefer_ceil":
        return (where + 0.5).floor()
    return (where - 0.5).ceil()
