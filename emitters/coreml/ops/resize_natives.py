"""Which of MIL's own operations samples as a Resize does.

Source: coremltools' documentation of ``resize_bilinear`` and ``upsample_bilinear``, which gives
the places that they sample at, and of ``upsample_nearest_neighbor`` by whole factors. Where
``resize_nearest_neighbor`` and fractional factors sample isn't documented: they aren't used.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from emitters.coreml import sizing
from emitters.coreml.algebra import Numbers
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.resize_plan import Axis, Plan, out_of
from emitters.coreml.types import Array
from emitters.lowering.plans.resize_plan import TRIED, known_extent
from emitters.lowering.plans.resize_reference import Along, indices_of
from emitters.lowering.plans.resize_rules import Rule, nearest, originals

MODES = ("UNALIGN_CORNERS", "STRICT_ALIGN_CORNERS", "DEFAULT")
"""``sampling_mode`` of resize_bilinear."""


def run_native(context: Context, plan: Plan) -> Var | None:
    """The Resize by one operation of MIL; None where none does the same."""
    rule, rank = plan.rule, len(plan.x.shape)
    if rule.antialias or rule.crops or context.type_of(plan.x) not in ("fp16", "fp32"):
        return None
    if rank < 3 or not plan.axes or any(axis.axis < rank - 2 for axis in plan.axes):
        return None
    if rule.mode == "nearest":
        return _repeated(context, plan)
    return _bilinear(context, plan) if rule.mode == "linear" else None


# -- nearest -----------------------------------------------------------------------------


def _repeated(context: Context, plan: Plan) -> Var | None:
    """upsample_nearest_neighbor by whole factors."""
    factors = {axis.axis: _factor(context, plan, axis) for axis in plan.axes}
    if any(factor is None for factor in factors.values()):
        return None
    rank = len(plan.x.shape)
    return context.op(
        "upsample_nearest_neighbor",
        x=plan.x,
        scale_factor_height=factors.get(rank - 2) or 1,
        scale_factor_width=factors.get(rank - 1) or 1,
    )


def _factor(context: Context, plan: Plan, axis: Axis) -> int | None:
    """How often each sample is repeated; None where that isn't what the axis asks for."""
    known = axis.known
    if known is not None:
        factor, rest = divmod(known.out, known.size)
        indices = indices_of(plan.rule, known) if factor and not rest else None
        repeated = np.arange(known.size).repeat(factor)
        return factor if indices is not None and np.array_equal(indices, repeated) else None
    if axis.scale is None or axis.scale != round(axis.scale):
        return None
    factor = int(axis.scale)
    for size in TRIED:
        extent = known_extent(Along(size, size * factor, axis.scale), partial(Numbers, context))
        found = nearest(plan.rule, extent, originals(plan.rule, extent)).array
        if found is None or not np.array_equal(found, np.arange(size * factor) // factor):
            return None
    return factor


# -- linear ------------------------------------------------------------------------------


def _bilinear(context: Context, plan: Plan) -> Var | None:
    """resize_bilinear to known sizes; to others upsample_bilinear by whole factors, or iOS17's
    resize."""
    mode = next((m for m in MODES if all(_same(context, plan, a, m) for a in plan.axes)), None)
    if mode is None:
        return None
    rank, by_axis = len(plan.x.shape), {axis.axis: axis for axis in plan.axes}
    outs = [
        out_of(context, plan, by_axis[axis])
        if axis in by_axis
        else sizing.size(context, plan.x, axis)
        for axis in (rank - 2, rank - 1)
    ]
    known = sizing.numbers(outs)
    if known is not None:
        return context.op(
            "resize_bilinear",
            x=plan.x,
            target_size_height=known[0],
            target_size_width=known[1],
            sampling_mode=mode,
        )
    factors = [_whole_factor(by_axis.get(axis)) for axis in (rank - 2, rank - 1)]
    if all(factors) and mode != "DEFAULT":
        return context.op(
            "upsample_bilinear",
            x=plan.x,
            scale_factor_height=factors[0],
            scale_factor_width=factors[1],
            align_corners=mode == "STRICT_ALIGN_CORNERS",
        )
    if context.target < 17:
        return None
    return context.op(
        "resize",
        x=plan.x,
        shape=sizing.vector(context, outs),
        resized_dims=np.uint32(2),
        interpolation_mode="LINEAR",
        sampling_mode=mode,
    )


def _whole_factor(axis: Axis | None) -> int:
    """The factor of an axis, or 0 where it isn't a whole number."""
    if axis is None:
        return 1
    return int(axis.scale) if axis.scale is not None and axis.scale == round(axis.scale) else 0


def _same(context: Context, plan: Plan, axis: Axis, mode: str) -> bool:
    """Whether a mode samples where the rule does, for all sizes that the axis can have."""
    if axis.scale is None and plan.scales is not None:
        return False  # anything between out / size and (out + 1) / size
    cases = axis.cases()
    return bool(cases) and all(_samples_alike(context, plan.rule, mode, case) for case in cases)


def _samples_alike(context: Context, rule: Rule, mode: str, axis: Along) -> bool:
    where = originals(rule, known_extent(axis, partial(Numbers, context)))
    ours = where.at_least(0.0).at_most(axis.size - 1.0).array
    theirs = places(mode, axis.size, axis.out)
    if ours is None:
        return False
    return bool(np.abs(ours - theirs).max(initial=0) <= 1e-6 * max(axis.size, axis.out))


def places(mode: str, size: int, out: int) -> Array:
    """Where resize_bilinear samples an axis, by its documentation."""
    index = np.arange(out, dtype=np.float64)
    if mode == "STRICT_ALIGN_CORNERS":
        where = index * ((size - 1) / max(out - 1, 1))
    elif mode == "DEFAULT":
        where = index * (size / out)
    else:
        where = index * (size / out) + 0.5 * (size / out) - 0.5
    return np.asarray(np.clip(where, 0, size - 1))
