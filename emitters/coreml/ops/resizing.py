"""Resize and Upsample: by MIL's own operations, or samples that are gathered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir

from emitters.coreml.algebra import Numbers
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.resize_natives import run_native
from emitters.coreml.ops.resize_plan import Axis, Plan, extent_of, plan_of
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY, Array
from emitters.lowering.plans.resize_reference import indices_of, weights_of
from emitters.lowering.plans.resize_rules import nearest, originals, samples
from emitters.lowering.refused import Refused

LARGEST = 1 << 18
"""Elements of a matrix above which an axis is blended from gathered samples instead."""


@lowers("Resize", "Upsample")
def resize(context: Context, node: onnx_ir.Node) -> None:
    """One operation of MIL where it is documented to sample at the same places; those know a few of
    ONNX's many rules, and the last two axes alone.

    Anything else goes axis by axis: nearest is a gather; linear and cubic are a product with a
    constant matrix, or two or four gathers times their weights. Indices and weights are constants,
    or computed by the same formulas where sizes are free.

    There, a place that nearest has half way between two samples may fall to either with scales
    that float32 doesn't hold (0.3): the last bit decides, in ONNX Runtime too.
    """
    plan = plan_of(context, node)
    kind = context.type_of(plan.x)
    if kind not in ("fp16", "fp32") and (plan.rule.mode != "nearest" or plan.rule.crops):
        raise Refused("a Resize of integers that blends", "cast to float32 in the model")
    made = run_native(context, plan)
    context.give(node.outputs[0], _composed(context, plan) if made is None else made)


def _composed(context: Context, plan: Plan) -> Var:
    x, masks = plan.x, []
    for axis in sorted(plan.axes, key=lambda axis: axis.growth):
        if plan.rule.crops:
            masks.append(_inside(context, plan, axis))
        x = _resized(context, plan, axis, x)
    if not masks:
        return x
    inside = masks[0]
    for mask in masks[1:]:
        inside = inside * mask
    kind = context.type_of(x)
    kept = context.op("mul", x=x, y=inside.of_type(kind))
    outside = (1.0 - inside) * plan.rule.extrapolation
    return context.op("add", x=kept, y=outside.of_type(kind))


def _resized(context: Context, plan: Plan, axis: Axis, x: Var) -> Var:
    """One axis."""
    rule, known = replace(plan.rule, extrapolation=0.0), axis.known
    if known is not None and rule.mode == "nearest" and not rule.crops:
        indices = indices_of(rule, known)
        if indices is not None:
            return context.op("gather", x=x, indices=indices, axis=axis.axis)
    if known is not None and rule.mode != "nearest":
        small = known.size * known.out <= LARGEST
        weights = weights_of(rule, known) if small or rule.antialias else None
        if weights is not None:
            return _product(context, x, axis.axis, weights)
    if rule.antialias:
        raise Refused("a Resize of free sizes with antialias", "fix them with --input NAME:DIMS")
    return _blended(context, plan, axis, x)


def _product(context: Context, x: Var, axis: int, weights: Array) -> Var:
    """matmul along an axis with weights [out, size]."""
    rank = len(x.shape)
    matrix: Array = weights.astype(NUMPY[context.type_of(x)])
    if axis == rank - 1:
        return context.op("matmul", x=x, y=np.ascontiguousarray(matrix.T))
    if axis == rank - 2:
        return context.op("matmul", x=context.const(matrix), y=x)
    order = [a for a in range(rank) if a != axis] + [axis]
    back = [order.index(a) for a in range(rank)]
    moved = context.op("transpose", x=x, perm=order)
    made = context.op("matmul", x=moved, y=np.ascontiguousarray(matrix.T))
    return context.op("transpose", x=made, perm=back)


def _blended(context: Context, plan: Plan, axis: Axis, x: Var) -> Var:
    """The gathered samples, or a sum of them times their weights."""
    extent = extent_of(context, plan, axis)
    total, kind = None, context.type_of(x)
    where = originals(plan.rule, extent)
    if plan.rule.mode == "nearest":
        index = nearest(plan.rule, extent, where).integers()
        return context.op("gather", x=x, indices=index, axis=axis.axis)
    for sample in samples(plan.rule, extent, where):
        part = context.op("gather", x=x, indices=sample.index.integers(), axis=axis.axis)
        weight = _column(sample.weight, axis, x).of_type(kind)
        part = context.op("mul", x=part, y=weight)
        total = part if total is None else context.op("add", x=total, y=part)
    return total


def _column(numbers: Numbers, axis: Axis, x: Var) -> Numbers:
    """Numbers for each index of the result along an axis: [out, 1...]."""
    return numbers.expanded(range(1, len(x.shape) - axis.axis))


def _inside(context: Context, plan: Plan, axis: Axis) -> Numbers:
    """1 where the region lies in the image, else 0."""
    extent = extent_of(context, plan, axis)
    where = originals(plan.rule, extent)
    inside = Numbers(context, 0.0).is_at_most(where) * where.is_at_most(extent.size - 1.0)
    return _column(inside, axis, plan.x)
