"""What a Resize or Upsample node asks for, axis by axis, as far as that is known beforehand.

Source: the operator page ``Resize`` (opset 19); sizes and scales in float32, as ONNX Runtime has
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.attributes import floating, ints, number, text
from converter.ir.dims import number_of, numbers_of
from converter.ir.edit import constant_tensor
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Array
from converter.passes.legalize.formulas import Numbers
from converter.passes.legalize.resize_reference import Along
from converter.passes.legalize.resize_rules import Extent, Rule

Dim = int | str | None
Region = tuple[float, float]

TRIED = (*range(1, 65), 80, 96, 100, 112, 127, 128, 160, 224, 255, 256, 320, 500, 640, 1000, 1023)
"""Sizes of a free axis for which a target's operator has to sample as ONNX's does to be used."""


@dataclass(frozen=True)
class Axis:
    """An axis that is resized.

    Attributes:
        axis: Which.
        entry: Its place in ``scales`` and ``sizes``.
        size, out: Before and after: numbers, or names of free sizes.
        scale: What ONNX divides by; None where it is computed.
        region: Start and end of the part that is cut out.
        stretched: Whether its scale follows from the two sizes.
    """

    axis: int
    entry: int
    size: Dim
    out: Dim
    scale: float | None
    region: Region | None = None
    stretched: bool = False

    @property
    def known(self) -> Along | None:
        """It in numbers, where all of it is known."""
        size, out = number_of(self.size), number_of(self.out)
        if size is None or out is None or self.scale is None:
            return None
        return Along(size, out, self.scale, self.region, self.stretched)

    @property
    def growth(self) -> float:
        """How much larger it gets: axes that get smaller first leave less to compute."""
        return self.scale if self.scale is not None else 1.0

    def cases(self) -> list[Along]:
        """What the axis can be: what there is, or many of what a free size may turn out to be."""
        if self.known is not None:
            return [self.known]
        size, out = number_of(self.size), number_of(self.out)
        sizes = list(TRIED) if size is None else [size]
        if self.scale is not None:
            scaled = ((n, int(np.float32(n) * np.float32(self.scale))) for n in sizes)
            return [Along(n, made, self.scale) for n, made in scaled if made]
        if out is None and len(sizes) > 1:
            sizes = sizes[::3]
        outs = TRIED[::3] if out is None else [out]
        return [
            Along(n, made, float(np.float32(made) / np.float32(n))) for n in sizes for made in outs
        ]


@dataclass(frozen=True)
class Asked:
    """What a node says.

    Attributes:
        rule: How places are found and samples weighed.
        axes: Those that ``scales`` and ``sizes`` are of.
        policy: ``keep_aspect_ratio_policy``.
        roi, scales, sizes: Its inputs, where they are there: an empty constant says the same as
            none.
    """

    rule: Rule
    axes: list[int]
    policy: str
    roi: onnx_ir.Value | None
    scales: onnx_ir.Value | None
    sizes: onnx_ir.Value | None

    @property
    def stretched(self) -> bool:
        """Whether scales follow from the sizes before and after."""
        return self.sizes is not None and self.policy == "stretch"


def asked_of(node: onnx_ir.Node, rank: int) -> Asked:
    """What a Resize or Upsample says of data of so many axes."""
    inputs = [*node.inputs, None, None, None]
    roi, scales, sizes = (None, inputs[1], None) if _is_old(node) else inputs[1:4]
    axes = [axis % rank for axis in ints(node, "axes", range(rank))]
    policy = text(node, "keep_aspect_ratio_policy", "stretch")
    return Asked(_rule(node), axes, policy, roi, _filled(scales), _filled(sizes))


def _is_old(node: onnx_ir.Node) -> bool:
    return node.op_type == "Upsample"


def _rule(node: onnx_ir.Node) -> Rule:
    old, mode = _is_old(node), text(node, "mode", "nearest")
    return Rule(
        {"bilinear": "linear"}.get(mode, mode),
        "asymmetric" if old else text(node, "coordinate_transformation_mode", "half_pixel"),
        "floor" if old else text(node, "nearest_mode", "round_prefer_floor"),
        floating(node, "cubic_coeff_a", -0.75),
        bool(number(node, "exclude_outside", 0)),
        bool(number(node, "antialias", 0)),
        floating(node, "extrapolation_value", 0.0),
    )


def _filled(value: onnx_ir.Value | None) -> onnx_ir.Value | None:
    array = _array(value)
    return None if array is not None and array.size == 0 else value


def _array(value: onnx_ir.Value | None) -> Array | None:
    stored = constant_tensor(value)
    return None if stored is None else np.asarray(stored.numpy()).ravel()


def axes_of(asked: Asked, before: Sequence[Dim], declared: Sequence[Dim]) -> list[Axis]:
    """The axes that don't stay as they are.

    Args:
        asked: What the node says.
        before: The sizes of the data's axes.
        declared: Those of the result, as far as ONNX infers them.

    Raises:
        Refused: It can't be told before the model runs.
    """
    before, declared = ([sizes[axis] for axis in asked.axes] for sizes in (before, declared))
    outs = _outs(asked, before, declared)
    factors = _factors(asked, before, outs)
    regions = _regions(asked, len(asked.axes))
    made = (
        Axis(axis, entry, before[entry], outs[entry], factors[entry], regions[entry],
             asked.stretched)
        for entry, axis in enumerate(asked.axes)
    )  # fmt: skip
    return [axis for axis in made if not _stays(axis, asked.scales)]


def _outs(asked: Asked, before: Sequence[Dim], declared: Sequence[Dim]) -> list[Dim]:
    """The sizes of the result. Scales say more than declared shapes may: a size times its scale,
    cut to a whole number."""
    sizes, scales = _array(asked.sizes), _array(asked.scales)
    if sizes is not None and asked.stretched:
        return [int(size) for size in sizes]
    if scales is None:
        return list(declared)
    return [
        out if (known := number_of(size)) is None else int(np.float32(known) * np.float32(scale))
        for size, out, scale in zip(before, declared, scales, strict=True)
    ]


def _factors(asked: Asked, before: Sequence[Dim], after: Sequence[Dim]) -> Sequence[float | None]:
    """What each axis's places are divided by."""
    scales = _array(asked.scales)
    if scales is not None:
        return [float(np.float32(scale)) for scale in scales]
    if asked.sizes is None:
        return [None] * len(before)
    if not asked.stretched:
        return [_kept(asked, before)] * len(before)
    pairs = zip(map(number_of, before), map(number_of, after), strict=True)
    return [
        None if size is None or out is None else float(np.float32(out) / np.float32(size))
        for size, out in pairs
    ]


def _kept(asked: Asked, before: Sequence[Dim]) -> float:
    """One scale for all axes: the smallest or largest that the sizes ask for."""
    wanted, own = _array(asked.sizes), numbers_of(before)
    if wanted is None or own is None:
        raise Refused(
            f"a Resize of free sizes with keep_aspect_ratio_policy {asked.policy}",
            "fix them with --input NAME:DIMS",
        )
    ratios = wanted.astype(np.float32) / np.asarray(own, np.float32)
    return float(ratios.min() if asked.policy == "not_larger" else ratios.max())


def _regions(asked: Asked, count: int) -> Sequence[Region | None]:
    if not asked.rule.crops:
        return [None] * count
    roi = _array(asked.roi)
    if roi is None:
        raise Refused("a Resize to a region (roi) that is computed")
    ends = roi.astype(np.float32)
    return [(float(ends[i]), float(ends[count + i])) for i in range(count)]


def _stays(axis: Axis, scales: onnx_ir.Value | None) -> bool:
    """Whether an axis is as it was, which in ONNX Runtime it is by a scale of 1 whatever region
    is cut out; of a computed scale it can't be said."""
    if axis.scale is not None:
        return axis.scale == 1.0
    return scales is None and axis.size is not None and axis.size == axis.out


def known_extent(axis: Along) -> Extent:
    """The numbers of a known axis, for the formulas."""
    region = None
    if axis.region is not None:
        region = Numbers(None, axis.region[0]), Numbers(None, axis.region[1])
    place, size = Numbers(None, np.arange(axis.out)), Numbers(None, axis.size)
    return Extent(place, size, Numbers(None, axis.out), Numbers(None, axis.scale), region)
