"""What a Resize or Upsample node asks for, axis by axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import onnx_ir

from emitters.lowering.plans import resize_plan
from emitters.lowering.plans.resize_rules import Extent, Rule
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.algebra import Numbers, counting, extent
from emitters.tflite.context import Context, strided
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.registry import CHANNELS_LAST

Axis = resize_plan.Axis[int | str]
"""An axis that is resized; free sizes have names."""


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
    asked, last = resize_plan.asked_of(node, x.rank), node.domain == CHANNELS_LAST
    places = [_place(axis, x.rank) if last else axis for axis in asked.axes]
    shape = context.shape(node.outputs[0])
    before, declared = ([dims[place] for place in places] for dims in (x.shape, shape))
    made = resize_plan.axes_of(asked, places, before, declared)
    axes = tuple(axis for axis in made if not (last and axis.axis in (0, x.rank - 1)))
    return Plan(x, asked.rule, axes, asked.scales, asked.sizes, last and x.rank == 4)


def _place(axis: int, rank: int) -> int:
    """Where an axis of ONNX's order is with channels last."""
    return 0 if axis == 0 else rank - 1 if axis == 1 else axis - 1


# -- sizes at run time -------------------------------------------------------------------


def extent_of(context: Context, plan: Plan, axis: Axis) -> Extent[Numbers]:
    """An axis's numbers, for the formulas."""
    known = axis.known
    if known is not None:
        return resize_plan.known_extent(known, partial(Numbers, context))
    size, count = extent(context, axis.size), out_of(context, plan, axis)
    number = build.reshape(context, count, ())
    out = Numbers(context, number)
    scale = _scale(context, plan, axis, size, out)
    region = None
    if axis.region is not None:
        region = (Numbers(context, axis.region[0]), Numbers(context, axis.region[1]))
    end = axis.out if isinstance(axis.out, int) else number
    return Extent(counting(context, end, axis.out), size, out, scale, region)


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
