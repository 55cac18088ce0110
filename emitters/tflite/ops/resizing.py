"""Resize and Upsample: RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR, or samples that are gathered."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir

from emitters.lowering.plans.resize_plan import known_extent
from emitters.lowering.plans.resize_reference import indices_of, weights_of
from emitters.lowering.plans.resize_rules import Rule, nearest, originals, samples
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.algebra import Numbers
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import Array, DataType, Tensor, known
from emitters.tflite.ops.resize_plan import Axis, Plan, extent_of, out_of, plan_of
from emitters.tflite.ops.resize_rules import NATIVES, Native, native_places, same_places
from emitters.tflite.registry import CHANNELS_LAST, lowers


@lowers("Resize", "Upsample", integer=True)
@lowers("Resize", "Upsample", domain=CHANNELS_LAST, integer=True)
def resize(context: Context, node: onnx_ir.Node) -> None:
    """RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR where they sample at the same places as ONNX's,
    which is computed for the sizes in question; they know two of ONNX's many rules, and images
    of [N, H, W, C] alone.

    Anything else goes axis by axis: nearest is a GATHER; linear and cubic add two or four GATHERs
    times their weights; with antialias an axis is a product with a constant matrix. Indices and
    weights are constants, or computed by the same formulas where sizes are free.

    There, a place that nearest has half way between two samples may fall to either with scales
    that float32 doesn't hold (0.3): the last bit decides, in ONNX Runtime too.
    """
    plan = plan_of(context, node)
    x, quant = plan.x, node.outputs[0].meta.get(QUANT)
    if x.quant is None and x.dtype != DataType.FLOAT and plan.rule.mode != "nearest":
        raise Refused(
            f"a Resize of {x.dtype.name.lower()} that blends", "cast to float32 in the model"
        )
    native = _native(context, plan)
    if native is not None:
        made = _run_native(context, plan, native)
    elif plan.rule.mode == "nearest" and not plan.rule.crops:
        made = _composed(context, plan, x)
    else:
        made = _composed(context, plan, _real(context, x))
    if quant is not None and not quant.same(made.quant):
        made = context.emit("QUANTIZE", [made], made.shape, x.dtype, quant=quant)
    context.give(node.outputs[0], made)


def _real(context: Context, x: Tensor) -> Tensor:
    """Integers with scales as real numbers."""
    if x.quant is None:
        return x
    return context.emit("DEQUANTIZE", [x], x.shape, DataType.FLOAT)


# -- TFLite's operators ------------------------------------------------------------------


_TAKEN = {DataType.FLOAT, DataType.INT8, DataType.UINT8}


def _native(context: Context, plan: Plan) -> Native | None:
    """The operator of TFLite that does the same."""
    rule = plan.rule
    if not plan.spatial or rule.antialias or rule.crops or plan.x.dtype not in _TAKEN:
        return None
    if not plan.axes or any(axis.axis not in (1, 2) for axis in plan.axes):
        return None
    found = (n for n in NATIVES.get(rule.mode, ()) if _does_same(context, plan, n))
    return next(found, None)


def _does_same(context: Context, plan: Plan, native: Native) -> bool:
    for axis in plan.axes:
        if axis.scale is None and plan.scales is not None:
            return False  # anything between out / size and (out + 1) / size
        indices = _known_indices(plan.rule, axis)
        if indices is not None:
            if not _takes(native, axis, indices):
                return False
            continue
        cases = [known_extent(case, partial(Numbers, context)) for case in axis.cases()]
        if not cases or not all(same_places(plan.rule, native, case) for case in cases):
            return False
    return True


def _known_indices(rule: Rule, axis: Axis) -> Array | None:
    """What nearest takes along an axis, where that is known."""
    known = axis.known if rule.mode == "nearest" and not rule.crops else None
    return None if known is None else indices_of(rule, known)


def _takes(native: Native, axis: Axis, indices: Array) -> bool:
    assert isinstance(axis.size, int) and isinstance(axis.out, int)
    return bool(np.array_equal(indices, native_places(native, axis.size, axis.out)))


def _run_native(context: Context, plan: Plan, native: Native) -> Tensor:
    x, shape = plan.x, list(plan.x.shape)
    pieces: list[Tensor] = []
    by_axis = {axis.axis: axis for axis in plan.axes}
    for place in (1, 2):
        axis = by_axis.get(place)
        if axis is not None:
            shape[place] = axis.out
        pieces.append(out_of(context, plan, axis) if axis else context.sizes(x.shape[place:][:1]))
    sizes = known(shape[1:3])
    size = (
        context.integers(sizes)
        if sizes is not None
        else context.emit(
            "CONCATENATION", pieces, (2,), options={"axis": 0, "fusedActivationFunction": 0}
        )
    )
    options = {"alignCorners": native.align, "halfPixelCenters": native.half}
    return context.emit(native.op, [x, size], shape, quant=x.quant, options=options)


# -- axis by axis ------------------------------------------------------------------------


def _composed(context: Context, plan: Plan, x: Tensor) -> Tensor:
    masks: list[Numbers] = []
    for axis in sorted(plan.axes, key=lambda axis: axis.growth):
        if plan.rule.crops:
            masks.append(_inside(context, plan, axis, x.rank))
        indices = _known_indices(plan.rule, axis)
        if plan.rule.antialias:
            x = _product(context, plan.rule, axis, x)
        elif indices is not None:
            x = _taken(context, axis, x, context.constant(indices))
        else:
            x = _blended(context, plan, axis, x)
    for mask in masks:
        outside = (1.0 - mask) * plan.rule.extrapolation
        x = (Numbers(context, x) * mask + outside).tensor
    return x


def _column(axis: Axis, rank: int) -> tuple[int | str, ...]:
    """The shape of numbers for each index of the result along an axis."""
    return (*[1] * axis.axis, axis.out, *[1] * (rank - axis.axis - 1))


def _inside(context: Context, plan: Plan, axis: Axis, rank: int) -> Numbers:
    """1 where the region lies in the image, else 0."""
    extent = extent_of(context, plan, axis)
    where = originals(plan.rule, extent)
    inside = Numbers(context, 0.0).is_at_most(where) * where.is_at_most(extent.size - 1.0)
    return inside.reshaped(_column(axis, rank))


def _taken(context: Context, axis: Axis, x: Tensor, indices: Tensor) -> Tensor:
    """Samples along an axis."""
    return context.emit(
        "GATHER",
        [x, indices],
        (*x.shape[: axis.axis], axis.out, *x.shape[axis.axis + 1 :]),
        quant=x.quant,
        options={"axis": axis.axis, "batchDims": 0},
    )


def _blended(context: Context, plan: Plan, axis: Axis, x: Tensor) -> Tensor:
    extent = extent_of(context, plan, axis)
    where = originals(plan.rule, extent)
    if plan.rule.mode == "nearest":
        return _taken(context, axis, x, nearest(plan.rule, extent, where).integers())
    total: Numbers | None = None
    for sample in samples(plan.rule, extent, where):
        taken = _taken(context, axis, x, sample.index.integers())
        part = Numbers(context, taken) * sample.weight.reshaped(_column(axis, x.rank))
        total = part if total is None else total + part
    assert total is not None
    return total.tensor


def _product(context: Context, rule: Rule, axis: Axis, x: Tensor) -> Tensor:
    """FULLY_CONNECTED along an axis."""
    known = axis.known
    if known is None:
        raise Refused("a Resize of free sizes with antialias", "fix them with --input NAME:DIMS")
    weights = weights_of(rule, known)
    if weights is None:  # the result's size follows from several axes
        raise Refused(
            f"a Resize of {axis.size} to {axis.out} by a scale of {axis.scale} with antialias",
            "give it sizes without keep_aspect_ratio_policy",
        )
    order = [a for a in range(x.rank) if a != axis.axis] + [axis.axis]
    back = [order.index(a) for a in range(x.rank)]
    moved = build.transpose(context, x, order)
    made = context.emit(
        "FULLY_CONNECTED",
        [moved, context.constant(weights), None],
        (*moved.shape[:-1], axis.out),
        options={"fusedActivationFunction": 0, "keepNumDims": True},
    )
    return build.transpose(context, made, back)
