"""What a Resize or Upsample node asks for, axis by axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from converter.graph.dims import number_of
from emitters.coreml import sizing
from emitters.coreml.algebra import Numbers, counting, number
from emitters.coreml.context import Context, Var, free
from emitters.coreml.sizing import Size
from emitters.lowering.plans import resize_plan
from emitters.lowering.plans.resize_rules import Extent, Rule
from emitters.lowering.refused import Refused

Axis = resize_plan.Axis[Any]
"""An axis that is resized; MIL's symbol is a free size before, None one after."""


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
    asked, shape = resize_plan.asked_of(node, len(x.shape)), context.shape(node.outputs[0])
    before = [x.shape[place] for place in asked.axes]
    declared = [number_of(shape[place]) for place in asked.axes]
    axes = resize_plan.axes_of(asked, asked.axes, before, declared)
    return Plan(x, asked.rule, tuple(axes), asked.scales, asked.sizes)


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
