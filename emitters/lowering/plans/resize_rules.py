"""How ONNX's Resize finds the samples of each place along an axis.

Source: the operator page ``Resize`` (opset 19) and ONNX Runtime's ``upsamplebase.h``, which
computes in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from emitters.lowering.refused import Refused


class Formula(Protocol):
    """Numbers that are known, or computed when the model runs: what an emitter has of them."""

    def __add__(self, other: Self | float, /) -> Self: ...
    def __radd__(self, other: float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __rsub__(self, other: float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __truediv__(self, other: Self | float, /) -> Self: ...
    def __abs__(self) -> Self: ...
    def floor(self) -> Self: ...
    def ceil(self) -> Self: ...
    def round(self) -> Self: ...
    def at_least(self, other: Self | float, /) -> Self: ...
    def at_most(self, other: Self | float, /) -> Self: ...
    def is_at_most(self, other: Self | float, /) -> Self: ...


N = TypeVar("N", bound=Formula)


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
class Extent(Generic[N]):
    """The sizes of one axis; all of no axes but the first.

    Attributes:
        place: 0, 1, ... for each index of the result, one axis.
        size, out: Before and after.
        scale: What ONNX divides by: not always out / size.
        region: Start and end of the part that is cut out.
    """

    place: N
    size: N
    out: N
    scale: N
    region: tuple[N, N] | None = None


@dataclass(frozen=True)
class Sample(Generic[N]):
    """One of the samples that are added: its index and weight for each index of the result."""

    index: N
    weight: N


def originals(rule: Rule, axis: Extent[N]) -> N:
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


def nearest(rule: Rule, axis: Extent[N], where: N) -> N:
    """The index that the mode nearest takes for each place."""
    return _rounded(rule, where).at_least(0.0).at_most(axis.size - 1.0)


def samples(rule: Rule, axis: Extent[N], where: N) -> list[Sample[N]]:
    """What linear and cubic add up for each place."""
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


def _rounded(rule: Rule, where: N) -> N:
    if rule.nearest == "floor":
        return where.floor()
    if rule.nearest == "ceil":
        return where.ceil()
    if rule.nearest == "round_prefer_ceil":
        return (where + 0.5).floor()
    return (where - 0.5).ceil()


def cubic_weights(part: N, a: float) -> list[N]:
    """The weights of the four samples around a place, ``part`` behind the second.

    Formula: R. G. Keys, "Cubic convolution interpolation for digital image processing" (1981).
    """
    near, far = part, 1.0 - part

    def outer(x: N) -> N:
        x = x + 1.0
        return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a

    def inner(x: N) -> N:
        return (x * (a + 2) - (a + 3)) * x * x + 1.0

    return [outer(near), inner(near), inner(far), outer(far)]
