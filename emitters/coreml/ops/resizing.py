"""Resize and Upsample by MIL's own operations, where they are documented to sample as ONNX's do:
those know a few of its many rules, and the last two axes alone. Anything else is legalized before
(:mod:`converter.passes.legalize.resizing`).

Source: coremltools' documentation of ``resize_bilinear`` and ``upsample_bilinear``, which gives
the places that they sample at, and of ``upsample_nearest_neighbor`` by whole factors. Where
``resize_nearest_neighbor`` and fractional factors sample isn't documented: they aren't used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.refused import Refused
from converter.passes.legalize.builder import DataType, dims
from converter.passes.legalize.resize_plan import (
    TRIED,
    Asked,
    Axis,
    asked_of,
    axes_of,
    known_extent,
)
from converter.passes.legalize.resize_reference import Along, indices_of
from converter.passes.legalize.resize_rules import Rule, nearest, originals
from emitters.coreml import sizing
from emitters.coreml.context import Context, free
from emitters.coreml.registry import lowers
from emitters.coreml.types import Array

MODES = ("UNALIGN_CORNERS", "STRICT_ALIGN_CORNERS", "DEFAULT")
"""``sampling_mode`` of resize_bilinear."""


def is_native(node: onnx_ir.Node, target: int) -> bool:
    """Whether one of MIL's operations does the same."""
    return _native(node, target) is not None


def _native(node: onnx_ir.Node, target: int) -> tuple[str, dict[str, Any]] | None:
    """The operation and its settings; to sizes that are computed where it has none of those."""
    x, output = node.inputs[0], node.outputs[0]
    if x is None or x.shape is None or output.shape is None or len(x.shape) < 3:
        return None
    rank = len(x.shape)
    asked = asked_of(node, rank)
    rule = asked.rule
    if rule.antialias or rule.crops or x.dtype not in (DataType.FLOAT, DataType.FLOAT16):
        return None
    try:
        axes = axes_of(asked, dims(x), dims(output))
    except Refused:
        return None
    if not axes or any(axis.axis < rank - 2 for axis in axes):
        return None
    pair = [next((a for a in axes if a.axis == axis), None) for axis in (rank - 2, rank - 1)]
    if rule.mode == "nearest":
        return _repeated(rule, pair)
    if rule.mode != "linear":
        return None
    mode = next((m for m in MODES if all(_same(asked, axis, m) for axis in axes)), None)
    outs = [axis.out if axis else dims(x)[rank - 2 + i] for i, axis in enumerate(pair)]
    return None if mode is None else _bilinear(mode, pair, outs, target)


def _repeated(rule: Rule, pair: list[Axis | None]) -> tuple[str, dict[str, Any]] | None:
    """upsample_nearest_neighbor by whole factors."""
    factors = [1 if axis is None else _repeats(rule, axis) for axis in pair]
    if None in factors:
        return None
    names = ("scale_factor_height", "scale_factor_width")
    return "upsample_nearest_neighbor", dict(zip(names, factors, strict=True))


def _repeats(rule: Rule, axis: Axis) -> int | None:
    """How often each sample is repeated; None where that isn't what the axis asks for."""
    known = axis.known
    if known is not None:
        factor, rest = divmod(known.out, known.size)
        indices = indices_of(rule, known) if factor and not rest else None
        repeated = np.arange(known.size).repeat(factor)
        return factor if indices is not None and np.array_equal(indices, repeated) else None
    if axis.scale is None or axis.scale != round(axis.scale):
        return None
    factor = int(axis.scale)
    for size in TRIED:
        extent = known_extent(Along(size, size * factor, axis.scale))
        found = nearest(rule, extent, originals(rule, extent)).array
        if found is None or not np.array_equal(found, np.arange(size * factor) // factor):
            return None
    return factor


def _bilinear(
    mode: str, pair: list[Axis | None], outs: list[int | str | None], target: int
) -> tuple[str, dict[str, Any]] | None:
    """resize_bilinear to known sizes; to others upsample_bilinear by whole factors, or iOS17's
    resize."""
    if all(isinstance(out, int) for out in outs):
        names = ("target_size_height", "target_size_width")
        return "resize_bilinear", {**dict(zip(names, outs, strict=True)), "sampling_mode": mode}
    factors = [_whole_factor(axis) for axis in pair]
    if all(factors) and mode != "DEFAULT":
        names = ("scale_factor_height", "scale_factor_width")
        corners = mode == "STRICT_ALIGN_CORNERS"
        return "upsample_bilinear", {
            **dict(zip(names, factors, strict=True)),
            "align_corners": corners,
        }
    if target < 17:
        return None
    settings = {"resized_dims": np.uint32(2), "interpolation_mode": "LINEAR"}
    return "resize", {**settings, "sampling_mode": mode}


def _whole_factor(axis: Axis | None) -> int:
    """The factor of an axis, or 0 where it isn't a whole number."""
    if axis is None:
        return 1
    return int(axis.scale) if axis.scale is not None and axis.scale == round(axis.scale) else 0


def _same(asked: Asked, axis: Axis, mode: str) -> bool:
    """Whether a mode samples where the rule does, for all sizes that the axis can have."""
    if axis.scale is None and asked.scales is not None:
        return False  # anything between out / size and (out + 1) / size
    cases = axis.cases()
    return bool(cases) and all(_samples_alike(asked.rule, mode, case) for case in cases)


def _samples_alike(rule: Rule, mode: str, axis: Along) -> bool:
    ours = originals(rule, known_extent(axis)).at_least(0.0).at_most(axis.size - 1.0).array
    theirs = places(mode, axis.size, axis.out)
    most = 1e-6 * max(axis.size, axis.out)
    return ours is not None and bool(np.abs(ours - theirs).max(initial=0) <= most)


def places(mode: str, size: int, out: int) -> Array:
    """Where resize_bilinear samples an axis, by its documentation.

    Args:
        mode: MIL's ``sampling_mode``.
        size: The axis before.
        out: The axis after.

    Returns:
        [out], float64: places between elements, counted from 0.
    """
    index = np.arange(out, dtype=np.float64)
    if mode == "STRICT_ALIGN_CORNERS":
        where = index * ((size - 1) / max(out - 1, 1))
    elif mode == "DEFAULT":
        where = index * (size / out)
    else:
        where = index * (size / out) + 0.5 * (size / out) - 0.5
    return np.asarray(np.clip(where, 0, size - 1))


@lowers("Resize", "Upsample", legal=is_native)
def resize(context: Context, node: onnx_ir.Node) -> None:
    x, found = context.var(node.inputs[0]), _native(node, context.target)
    if found is None:
        raise Refused("a Resize that samples at other places than MIL's operations")
    op, settings = found
    if op == "resize":
        settings["shape"] = sizing.vector(context, _outs(context, node, x))
    context.give(node.outputs[0], context.op(op, x=x, **settings))


def _outs(context: Context, node: onnx_ir.Node, x: Any) -> list[sizing.Size]:
    """The sizes of the result's last two axes."""
    rank = len(x.shape)
    asked = asked_of(node, rank)
    outs = [sizing.size(context, x, axis) for axis in (rank - 2, rank - 1)]
    value = node.inputs[0]
    assert value is not None
    for axis in axes_of(asked, dims(value), dims(node.outputs[0])):
        place = axis.axis - (rank - 2)
        if isinstance(axis.out, int):
            outs[place] = axis.out
        elif asked.sizes is not None:
            outs[place] = sizing.elements(context, context.var(asked.sizes))[axis.entry]
        elif axis.scale is not None and axis.scale == round(axis.scale):
            outs[place] = sizing.compute(context, "mul", outs[place], int(axis.scale))
        else:
            size = outs[place]
            wide = context.cast(size, "fp32") if free(size) else np.asarray([size], np.float32)
            made = context.op("mul", x=wide, y=np.float32(axis.scale))
            outs[place] = context.cast(context.op("floor", x=made), "int32")
    return outs
