"""What a Resize or Upsample node asks for, axis by axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir

from emitters.lowering.refused import Refused
from emitters.lowering.resize_reference import Along
from emitters.lowering.resize_rules import Extent, Rule
from emitters.tflite import build
from emitters.tflite.algebra import Numbers, counting, extent
from emitters.tflite.context import Context, strided
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.ops.resize_rules import known_extent
from emitters.tflite.registry import CHANNELS_LAST


@dataclass(frozen=True)
class Axis:
    """An axis that is resized.

    Attributes:
        axis: Which, in the tensor's own layout.
        entry: Its place in ``scales`` and ``sizes``.
        size, out: Before and after.
        scale: What ONNX divides by; None where it is computed.
        region: Start and end of the part that is cut out.
        stretched: Whether its scale follows from the two sizes.
    """

    axis: int
    entry: int
    size: int | str
    out: int | str
    scale: float | None
    region: tuple[float, float] | None = None
    stretched: bool = False

    @property
    def is_known(self) -> bool:
        """Whether all of it is a number."""
        return self.known is not None

    @property
    def known(self) -> Along | None:
        """It in numbers, where all of it is known."""
        if not (isinstance(self.size, int) and isinstance(self.out, int)) or self.scale is None:
            return None
        return Along(self.size, self.out, self.scale, self.region, self.stretched)


@dataclass(frozen=True)
class Plan:
    """A whole node.

    Attributes:
        x: What is resized.
        rule: How.
        axes: Those that are resized.
        scales, sizes: The node's inputs, where they are there; as they are for the data in ONNX's
            order.
        spatial: Whether its channels are last, and nothing but images is resized.
    """

    x: Tensor
    rule: Rule
    axes: tuple[Axis, ...]
    scales: onnx_ir.Value | None
    sizes: onnx_ir.Value | None
    spatial: bool


def plan_of(context: Context, node: onnx_ir.Node) -> Plan:
    """What a node asks for.

    Raises:
        Refused: It can't be told before the model runs.
    """
    x = context.tensor(node.inputs[0])
    rule, old = _rule(node), node.op_type == "Upsample"
    inputs = [*node.inputs, None, None, None]
    roi, scales, sizes = (None, inputs[1], None) if old else inputs[1:4]
    scales, sizes = _given(context, scales), _given(context, sizes)
    attribute = node.attributes.get("axes")
    named = [axis % x.rank for axis in attribute.as_ints()] if attribute is not None else None
    onnx_axes = named if named is not None else list(range(x.rank))
    last = node.domain == CHANNELS_LAST
    places = [_place(axis, x.rank) if last else axis for axis in onnx_axes]
    outs = _outs(context, node, x, places, scales, sizes)
    factors = _factors(context, node, [x.shape[p] for p in places], outs, scales, sizes)
    regions = _regions(context, rule, roi, len(places))
    stretched = sizes is not None and _policy(node) == "stretch"
    axes = tuple(
        Axis(place, entry, x.shape[place], outs[entry], factors[entry], regions[entry], stretched)
        for entry, place in enumerate(places)
        if not (last and place in (0, x.rank - 1))
        and not _stays(x.shape[place], outs[entry], factors[entry], scales)
    )
    return Plan(x, rule, axes, scales, sizes, last and x.rank == 4)


def _rule(node: onnx_ir.Node) -> Rule:
    def text(name: str, default: str) -> str:
        attribute = node.attributes.get(name)
        return attribute.as_string() if attribute is not None else default

    def number(name: str, default: float) -> float:
        attribute = node.attributes.get(name)
        return float(attribute.value) if attribute is not None else default

    old = node.op_type == "Upsample"
    mode = text("mode", "nearest")
    return Rule(
        {"bilinear": "linear"}.get(mode, mode),
        "asymmetric" if old else text("coordinate_transformation_mode", "half_pixel"),
        "floor" if old else text("nearest_mode", "round_prefer_floor"),
        number("cubic_coeff_a", -0.75),
        bool(number("exclude_outside", 0)),
        bool(number("antialias", 0)),
        number("extrapolation_value", 0.0),
    )


def _policy(node: onnx_ir.Node) -> str:
    attribute = node.attributes.get("keep_aspect_ratio_policy")
    return attribute.as_string() if attribute is not None else "stretch"


def _given(context: Context, value: onnx_ir.Value | None) -> onnx_ir.Value | None:
    """An input that isn't left out, nor an empty constant, which says the same."""
    array = context.array(value)
    return None if array is not None and array.size == 0 else value


def _place(axis: int, rank: int) -> int:
    """Where an axis of ONNX's order is with channels last."""
    return 0 if axis == 0 else rank - 1 if axis == 1 else axis - 1


def _outs(
    context: Context,
    node: onnx_ir.Node,
    x: Tensor,
    places: list[int],
    scales: onnx_ir.Value | None,
    sizes: onnx_ir.Value | None,
) -> list[int | str]:
    """The sizes of the result along the node's axes."""
    shape = context.shape(node.outputs[0])
    array = context.array(sizes)
    if array is not None and _policy(node) == "stretch":
        return [int(size) for size in array.ravel()]
    factors = context.array(scales)
    if factors is None:
        return [shape[place] for place in places]
    return [
        _scaled(x.shape[place], shape[place], np.float32(factor))
        for place, factor in zip(places, factors.ravel(), strict=True)
    ]


def _scaled(size: int | str, out: int | str, factor: np.float32) -> int | str:
    """A size times its scale, cut to a whole number; declared shapes may say less."""
    return int(np.float32(size) * factor) if isinstance(size, int) else out


def _factors(
    context: Context,
    node: onnx_ir.Node,
    before: list[int | str],
    after: list[int | str],
    scales: onnx_ir.Value | None,
    sizes: onnx_ir.Value | None,
) -> list[float | None]:
    """The scale of each axis, as ONNX Runtime has it: float32."""
    array = context.array(scales)
    if array is not None:
        return [float(number) for number in array.ravel()]
    if sizes is not None and _policy(node) != "stretch":
        return _kept(context, _policy(node), before, sizes)
    return [
        float(np.float32(out) / np.float32(size))
        if sizes is not None and isinstance(out, int) and isinstance(size, int)
        else None
        for size, out in zip(before, after, strict=True)
    ]


def _kept(
    context: Context, policy: str, before: list[int | str], sizes: onnx_ir.Value
) -> list[float | None]:
    """One scale for all axes: the smallest or largest that the sizes ask for."""
    wanted = context.array(sizes)
    known = [size for size in before if isinstance(size, int)]
    if wanted is None or len(known) != len(before):
        raise Refused(
            f"a Resize of free sizes with keep_aspect_ratio_policy {policy}",
            "fix them with --input NAME:DIMS",
        )
    ratios = wanted.astype(np.float32) / np.asarray(known, np.float32)
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


def _stays(
    size: int | str, out: int | str, scale: float | None, scales: onnx_ir.Value | None
) -> bool:
    """Whether an axis is as it was, which in ONNX Runtime it is by a scale of 1 whatever region
    is cut out; of a computed scale it can't be said."""
    return scale == 1.0 or (scale is None and scales is None and size == out)


# -- sizes at run time -------------------------------------------------------------------


def extent_of(context: Context, plan: Plan, axis: Axis) -> Extent[Numbers]:
    """An axis's numbers, for the formulas."""
    if axis.is_known:
        assert isinstance(axis.size, int) and isinstance(axis.out, int) and axis.scale is not None
        return known_extent(context, axis.size, axis.out, axis.scale, axis.region)
    size, count = extent(context, axis.size), out_of(context, plan, axis)
    number = build.reshape(context, count, ())
    out = Numbers(context, number)
    scale = _scale(context, plan, axis, size, out)
    region = None
    if axis.region is not None:
        region = (Numbers(context, axis.region[0]), Numbers(context, axis.region[1]))
    known = axis.out if isinstance(axis.out, int) else number
    return Extent(counting(context, known, axis.out), size, out, scale, region)


def out_of(context: Context, plan: Plan, axis: Axis) -> Tensor:
    """The size of the result along an axis: int32 [1]."""
    if isinstance(axis.out, int):
        return context.integers([axis.out])
    if plan.sizes is not None:
        return _entry(
            context, build.cast(context, context.tensor(plan.sizes), DataType.INT32), axis
        )
    size = context.integers([axis.size]) if isinstance(axis.size, int) else context.size(axis.size)
    if axis.scale is not None and axis.scale == round(axis.scale):
        return build.binary(context, "MUL", size, build.scalar(context, axis.scale, size))
    scale = _scale_entry(context, plan, axis)
    return (Numbers(context, size) * scale).floor().integers()


def _scale(context: Context, plan: Plan, axis: Axis, size: Numbers, out: Numbers) -> Numbers:
    if axis.scale is not None:
        return Numbers(context, axis.scale)
    if plan.scales is not None:
        return _scale_entry(context, plan, axis).reshaped(())
    return out / size


def _scale_entry(context: Context, plan: Plan, axis: Axis) -> Numbers:
    if axis.scale is not None:
        return Numbers(context, axis.scale)
    if plan.scales is None:
        raise Refused("neither scales nor sizes are there")
    return Numbers(context, _entry(context, context.tensor(plan.scales), axis))


def _entry(context: Context, vector: Tensor, axis: Axis) -> Tensor:
    """The number of an axis in a vector: of one element."""
    limits = [context.integers([n]) for n in (axis.entry, axis.entry + 1, 1)]
    return context.emit("STRIDED_SLICE", [vector, *limits], (1,), options=strided())
