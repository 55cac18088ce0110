"""Resize and Upsample of images, channels last: RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR, where
they sample at the same places as ONNX's, which is computed for the sizes in question. They know
three of ONNX's many rules; anything else is legalized before
(:mod:`converter.passes.legalize.resizing`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir

from converter.ir.equal_sizes import computed
from converter.ir.refused import Refused
from converter.passes.legalize.builder import dims
from emitters.lowering.channels_last import CHANNELS_LAST
from emitters.tflite import build
from emitters.tflite.context import QUANT, Context, strided
from emitters.tflite.graph import Array, DataType, Tensor, known
from emitters.tflite.registry import lowers

if TYPE_CHECKING:
    from converter.passes.legalize.resize_plan import Asked, Axis
    from converter.passes.legalize.resize_reference import Along
    from converter.passes.legalize.resize_rules import Rule


@dataclass(frozen=True)
class Native:
    """One of TFLite's operators with its options.

    Attributes:
        op: RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR.
        align, half: Its options ``alignCorners`` and ``halfPixelCenters``.
    """

    op: str
    align: bool
    half: bool


Dim = int | str | None

_OPTIONS = ((False, False), (False, True), (True, False))
NATIVES = {
    "nearest": [Native("RESIZE_NEAREST_NEIGHBOR", *options) for options in _OPTIONS],
    "linear": [Native("RESIZE_BILINEAR", *options) for options in _OPTIONS],
}
_TAKEN = {DataType.FLOAT, DataType.FLOAT16, DataType.INT8, DataType.UINT8}


def is_native(node: onnx_ir.Node) -> bool:
    """Whether one of TFLite's operators does the same."""
    return _native(node) is not None


def _native(node: onnx_ir.Node) -> tuple[Native, Asked, list[Axis]] | None:
    from converter.passes.legalize.resize_plan import asked_of, axes_of

    x, output = node.inputs[0], node.outputs[0]
    if x is None or x.shape is None or output.shape is None or len(x.shape) != 4:
        return None
    asked = asked_of(node, 4)
    rule = asked.rule
    if rule.antialias or rule.crops or x.dtype not in _TAKEN:
        return None
    if rule.mode != "nearest" and not x.dtype.is_floating_point() and QUANT not in x.meta:
        return None  # integers that aren't real numbers
    before, after = dims(x), dims(output)
    if node.domain == CHANNELS_LAST:
        before, after = ([sizes[axis] for axis in (0, 3, 1, 2)] for sizes in (before, after))
    try:
        axes = axes_of(asked, before, _kept(asked, before, after))
    except Refused:
        return None
    if not axes or any(axis.axis not in (2, 3) for axis in axes):
        return None
    found = (n for n in NATIVES.get(rule.mode, ()) if all(_same(asked, n, a) for a in axes))
    native = next(found, None)
    return None if native is None else (native, asked, axes)


def _kept(asked: Asked, before: Sequence[Dim], after: Sequence[Dim]) -> list[Dim]:
    """The sizes of a result, those called as before that are asked to be: the batch of an output
    may have a name of its own."""
    found = list(after)
    for axis, size in zip(asked.axes, computed(asked.sizes) or (), strict=False):
        if size is not None and size.number == 1 and size.symbols == (before[axis],):
            found[axis] = before[axis]
    return found


def _same(asked: Asked, native: Native, axis: Axis) -> bool:
    """Whether an operator samples an axis where the rule does, for all sizes that it can have."""
    from converter.passes.legalize.resize_reference import indices_of

    if axis.scale is None and asked.scales is not None:
        return False  # anything between out / size and (out + 1) / size
    along = axis.known
    if along is not None and asked.rule.mode == "nearest":
        indices = indices_of(asked.rule, along)
        if indices is not None:
            return bool(np.array_equal(indices, native_places(native, along.size, along.out)))
    cases = axis.cases()
    return bool(cases) and all(same_places(asked.rule, native, case) for case in cases)


def native_places(native: Native, size: int, out: int) -> Array:
    """Where TFLite's operators sample: indices for nearest, places within the input for linear.

    Source: ``reference/resize_bilinear.h`` and ``resize_nearest_neighbor.h``, in float32.

    Args:
        native: The operator and its options.
        size: The axis before.
        out: The axis after.

    Returns:
        [out], float32.
    """
    place = np.arange(out, dtype=np.float32)
    corners = native.align and out > 1
    step = np.float32(size - 1) / np.float32(out - 1) if corners else np.float32(size) / out
    if native.op == "RESIZE_BILINEAR":
        where = (place + np.float32(0.5)) * step - np.float32(0.5) if native.half else place * step
        return np.asarray(np.clip(where, 0, size - 1))
    where = (place + np.float32(0.5 if native.half else 0)) * step
    rounded = np.floor(where + np.float32(0.5)) if native.align else np.floor(where)
    return np.asarray(np.clip(rounded, 0, size - 1))


def same_places(rule: Rule, native: Native, along: Along) -> bool:
    """Whether TFLite's operator samples a known axis where the rule does.

    Args:
        rule: What ONNX asks for.
        native: TFLite's operator and its options.
        along: The axis.
    """
    from converter.passes.legalize.resize_plan import known_extent
    from converter.passes.legalize.resize_rules import nearest, originals

    axis, theirs = known_extent(along), native_places(native, along.size, along.out)
    where = originals(rule, axis)
    if rule.mode == "nearest":
        ours = nearest(rule, axis, where).array
        return ours is not None and bool(np.array_equal(ours, theirs))
    ours = where.at_least(0.0).at_most(axis.size - 1.0).array
    most = 1e-6 * max(along.size, along.out)
    return ours is not None and bool(np.abs(ours - theirs).max(initial=0) <= most)


@lowers("Resize", "Upsample", domain=CHANNELS_LAST, integer=True, legal=is_native)
def resize(context: Context, node: onnx_ir.Node) -> None:
    x, quant, found = context.tensor(node.inputs[0]), node.outputs[0].meta.get(QUANT), _native(node)
    if found is None:
        raise Refused("a Resize that samples at other places than TFLite's operators")
    native, asked, axes = found
    shape, pieces = list(x.shape), []
    by_axis = {axis.axis - 1: axis for axis in axes}
    for place in (1, 2):
        axis = by_axis.get(place)
        if axis is not None:
            shape[place] = context.shape(node.outputs[0])[place] if axis.out is None else axis.out
        pieces.append(
            _out(context, asked, axis, x.shape[place])
            if axis
            else context.sizes(x.shape[place:][:1])
        )
    sizes = known(shape[1:3])
    size = context.integers(sizes) if sizes is not None else context.joined(pieces)
    options = {"alignCorners": native.align, "halfPixelCenters": native.half}
    made = context.emit(native.op, [x, size], shape, quant=x.quant, options=options)
    if quant is not None and not quant.same(made.quant):
        made = context.emit("QUANTIZE", [made], made.shape, x.dtype, quant=quant)
    context.give(node.outputs[0], made)


def _out(context: Context, asked: Asked, axis: Axis, before: int | str) -> Tensor:
    """The size of the result along an axis: int32 [1]."""
    if isinstance(axis.out, int):
        return context.integers([axis.out])
    if asked.sizes is not None:
        sizes = build.cast(context, context.tensor(asked.sizes), DataType.INT32)
        limits = [context.integers([n]) for n in (axis.entry, axis.entry + 1, 1)]
        return context.emit("STRIDED_SLICE", [sizes, *limits], (1,), options=strided())
    size = context.sizes([before])
    assert axis.scale is not None
    if axis.scale == round(axis.scale):
        return build.binary(context, "MUL", size, build.scalar(context, axis.scale, size))
    wide = build.cast(context, size, DataType.FLOAT)
    scaled = build.binary(context, "MUL", wide, build.scalar(context, axis.scale, wide))
    return build.cast(context, build.unary(context, "FLOOR", scaled), DataType.INT32)
