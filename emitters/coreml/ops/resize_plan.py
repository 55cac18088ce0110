"""What a Resize or Upsample node asks for, axis by axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from emitters.coreml import sizing
from emitters.coreml.algebra import Numbers, counting, number
from emitters.coreml.context import Context, Var, free
from emitters.coreml.sizing import Size
from emitters.lowering.attributes import floating, ints, text
from emitters.lowering.attributes import number as whole
from emitters.lowering.refused import Refused
from emitters.lowering.resize_reference import Along
from emitters.lowering.resize_rules import Extent, Rule


@dataclass(frozen=True)
class Axis:
    """An axis that is resized.

    Attributes:
        axis: Which.
        entry: Its place in ``scales`` and ``sizes``.
        size: Before: a number, or MIL's symbol.
        out: After; None where it isn't known.
        scale: What ONNX divides by; None where it is computed.
        region: Start and end of the part that is cut out.
        stretched: Whether its scale follows from the two sizes.
    """

    axis: int
    entry: int
    size: Any
    out: int | None
    scale: float | None
    region: tuple[float, float] | None = None
    stretched: bool = False

    @property
    def known(self) -> Along | None:
        """It in numbers, where all of it is known."""
        if free(self.size) or self.out is None or self.scale is None:
            return None
        return Along(int(self.size), self.out, self.scale, self.region, self.stretched)


@dataclass(frozen=True)
class Plan:
    """A whole node.

    Attributes:
        x: What is resized.
        rule: How.
        axes: Those that are resized.
        scales, sizes: The node's inputs, where they are there.
    """

    x: Var
    rule: Rule
    axes: tuple[Axis, ...]
    scales: onnx_ir.Value | None
    sizes: onnx_ir.Value | None


def plan_of(context: Context, node: onnx_ir.Node) -> Plan:
    """What a node asks for.

    Raises:
        Refused: It can't be told before the model runs.
    """
    x = context.var(node.inputs[0])
    rule, old = rule_of(node), node.op_type == "Upsample"
    inputs = [*node.inputs, None, None, None]
    roi, scales, sizes = (None, inputs[1], None) if old else inputs[1:4]
    scales, sizes = _given(context, scales), _given(context, sizes)
    rank = len(x.shape)
    places = [axis % rank for axis in ints(node, "axes", range(rank))]
    before = [x.shape[place] for place in places]
    outs = _outs(context, node, places, before, scales, sizes)
    factors = _factors(context, node, before, outs, scales, sizes)
    regions = _regions(context, rule, roi, len(places))
    stretched = sizes is not None and _policy(node) == "stretch"
    made = (
        Axis(place, entry, before[entry], outs[entry], factors[entry], regions[entry], stretched)
        for entry, place in enumerate(places)
    )
    return Plan(x, rule, tuple(a for a in made if not _stays(a, scales)), scales, sizes)


def rule_of(node: onnx_ir.Node) -> Rule:
    """A node's attributes."""
    old = node.op_type == "Upsample"
    mode = text(node, "mode", "nearest")
    return Rule(
        {"bilinear": "linear"}.get(mode, mode),
        "asymmetric" if old else text(node, "coordinate_transformation_mode", "half_pixel"),
        "floor" if old else text(node, "nearest_mode", "round_prefer_floor"),
        floating(node, "cubic_coeff_a", -0.75),
        bool(whole(node, "exclude_outside", 0)),
        bool(whole(node, "antialias", 0)),
        floating(node, "extrapolation_value", 0.0),
    )


def _policy(node: onnx_ir.Node) -> str:
    return text(node, "keep_aspect_ratio_policy", "stretch")


def _given(context: Context, value: onnx_ir.Value | None) -> onnx_ir.Value | None:
    """An input that isn't left out, nor an empty constant, which says the same."""
    array = context.array(value)
    return None if array is not None and array.size == 0 else value


def _outs(
    context: Context,
    node: onnx_ir.Node,
    places: list[int],
    before: list[Any],
    scales: onnx_ir.Value | None,
    sizes: onnx_ir.Value | None,
) -> list[int | None]:
    """The sizes of the result along the node's axes."""
    array = context.array(sizes)
    if array is not None and _policy(node) == "stretch":
        return [int(size) for size in array.ravel()]
    declared = context.shape(node.outputs[0])
    told = [dim if isinstance(dim := declared[place], int) else None for place in places]
    factors = context.array(scales)
    if factors is None:
        return told
    return [
        out if free(size) else int(np.float32(size) * np.float32(factor))
        for size, out, factor in zip(before, told, factors.ravel(), strict=True)
    ]


def _factors(
    context: Context,
    node: onnx_ir.Node,
    before: list[Any],
    after: list[int | None],
    scales: onnx_ir.Value | None,
    sizes: onnx_ir.Value | None,
) -> list[float | None]:
    """What each axis's places are divided by."""
    factors = context.array(scales)
    if factors is not None:
        return [float(np.float32(factor)) for factor in factors.ravel()]
    if sizes is not None and _policy(node) != "stretch":
        return _kept(context, _policy(node), before, sizes)
    return [
        float(np.float32(out) / np.float32(size))
        if sizes is not None and out is not None and not free(size)
        else None
        for size, out in zip(before, after, strict=True)
    ]


def _kept(
    context: Context, policy: str, before: list[Any], sizes: onnx_ir.Value
) -> list[float | None]:
    """One scale for all axes: the smallest or largest that the sizes ask for."""
    wanted, own = context.array(sizes), sizing.numbers(before)
    if wanted is None or own is None:
        raise Refused(
            f"a Resize of free sizes with keep_aspect_ratio_policy {policy}",
            "fix them with --input NAME:DIMS",
        )
    ratios = wanted.astype(np.float32) / np.asarray(own, np.float32)
    ratio = float(ratios.min() if policy == "not_larger" else ratios.max())
    return [ratio] * len(before)


def _regions(
    context: Context, rule: Rule, roi: onnx_ir.Value | None, count: int
) -> list[tuple[float, float] | None]:
    if not rule.crops:
        return [None] * count
    array = context.array(roi)
    if array is None:
        raise Refused("a Resize to a region (roi) that is computed")
    ends = array.astype(np.float32).ravel()
    return [(float(ends[i]), float(ends[count + i])) for i in range(count)]


def _stays(axis: Axis, scales: onnx_ir.Value | None) -> bool:
    """Whether an axis is as it was, which in ONNX Runtime it is by a scale of 1 whatever region
    is cut out; of a computed scale it can't be said."""
    if axis.scale is not None:
        return axis.scale == 1.0
    return scales is None and not free(axis.size) and axis.size == axis.out


# -- sizes at run time -------------------------------------------------------------------


def extent_of(context: Context, plan: Plan, axis: Axis) -> Extent[Numbers]:
    """An axis's numbers, for the formulas."""
    count = out_of(context, plan, axis)
    size = number(context, sizing.size(context, plan.x, axis.axis))
    out = number(context, count)
    region = None
    if axis.region is not None:
        region = (Numbers(context, axis.region[0]), Numbers(context, axis.region[1]))
    return Extent(
        counting(context, count), size, out, _scale(context, plan, axis, size, out), region
    )


def out_of(context: Context, plan: Plan, axis: Axis) -> Size:
    """The size of the result along an axis."""
    if axis.out is not None:
        return axis.out
    if plan.sizes is not None:
        return sizing.elements(context, context.var(plan.sizes))[axis.entry]
    size = sizing.size(context, plan.x, axis.axis)
    if axis.scale is not None and axis.scale == round(axis.scale):
        return sizing.compute(context, "mul", size, int(axis.scale))
    scale = _entry(context, plan, axis) if axis.scale is None else axis.scale
    made = (Numbers(context, context.cast(size, "fp32") if free(size) else size) * scale).floor()
    return made.integers()


def _scale(context: Context, plan: Plan, axis: Axis, size: Numbers, out: Numbers) -> Numbers:
    if axis.scale is not None:
        return Numbers(context, axis.scale)
    return _entry(context, plan, axis).reshaped([]) if plan.scales is not None else out / size


def _entry(context: Context, plan: Plan, axis: Axis) -> Numbers:
    """The scale of an axis: of one element."""
    if plan.scales is None:
        raise Refused("neither scales nor sizes are there")
    place = np.asarray([axis.entry], np.int32)
    return Numbers(context, context.op("gather", x=context.var(plan.scales), indices=place, axis=0))
