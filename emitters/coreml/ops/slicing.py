"""Slice, Split and Concat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from emitters.coreml import limits, sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import Size

_FAR = 1 << 30
"""An index beyond the end of any axis."""


@dataclass
class Cut:
    """What of an axis is taken.

    Attributes:
        begin: The first index; from the end where negative. None: from the first.
        end: The index after the last one; from the end where negative. None: to the last.
        step: From one to the next; at least 1.
        backwards: Whether the axis is turned round before.
    """

    begin: Size | None = None
    end: Size | None = None
    step: int = 1
    backwards: bool = False


@lowers("Slice")
def slice_(context: Context, node: onnx_ir.Node) -> None:
    """slice_by_index, after a reverse where steps are negative: what its masks and ends mean with
    those isn't documented. Starts and ends may be computed, axes and steps not."""
    x = context.var(node.inputs[0])
    starts, ends = (_limits(context, value) for value in node.inputs[1:3])
    axes = context.given(node, 3, "axes")
    steps = context.given(node, 4, "steps")
    cuts: dict[int, Cut] = {}
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = int(axes.ravel()[place]) % len(x.shape) if axes is not None else place
        step = int(steps.ravel()[place]) if steps is not None else 1
        cuts[axis] = _cut(context, x.shape[axis], start, end, step)
    context.give(node.outputs[0], cut(context, x, cuts))


def _limits(context: Context, value: onnx_ir.Value | None) -> list[Size]:
    """Starts or ends. Those that don't fit into 32 bits are as far as an index can be."""
    array = context.array(value)
    if array is not None:
        return [int(item) for item in np.clip(array.ravel(), -_FAR, _FAR)]
    var = context.var(value)
    if free(var.shape[0]):
        raise Refused("a Slice along an unknown number of axes")
    return sizing.elements(context, var)


def _cut(context: Context, dim: Any, start: Size, end: Size, step: int) -> Cut:
    """ONNX's start, end and step of an axis."""
    if not free(start) and not free(end) and not free(dim):
        return _known(int(dim), int(start), int(end), step)
    if step < 0:  # index i is -1 - i from the end, on which side of 0 it may be
        start, end = (_turned(context, item) for item in (start, end))
    begin = None if not free(start) and (start == 0 or start <= -_FAR) else start
    stop = None if not free(end) and end >= _FAR - 1 else end
    return Cut(begin, stop, abs(step), step < 0)


def _turned(context: Context, index: Size) -> Size:
    if not free(index):
        return -1 - int(index)
    return context.op("sub", x=np.asarray([-1], np.int32), y=index)


def _known(size: int, start: int, end: int, step: int) -> Cut:
    """Of an axis whose size is known: ONNX clamps to it, and MIL isn't asked to."""
    start = start + size if start < 0 else start
    end = end + size if end < 0 else end
    if step > 0:
        taken = range(max(start, 0), min(end, size), step)
    else:
        taken = range(min(max(start, 0), size - 1), max(end, -1), step)
    if not taken:
        raise Refused(limits.EMPTY)
    if step < 0:
        taken = range(size - 1 - taken[0], size - taken[-1], -step)
    begin, stop = taken[0], taken[-1] + 1
    return Cut(begin or None, stop if stop < size else None, abs(step), step < 0)


def cut(context: Context, x: Var, cuts: dict[int, Cut]) -> Var:
    """What is left of a variable.

    Args:
        context: Where it is computed.
        x: The variable.
        cuts: By axis; the others stay as they are.
    """
    turned = [axis for axis, item in sorted(cuts.items()) if item.backwards]
    if turned:
        x = context.op("reverse", x=x, axes=turned)
    every = [cuts.get(axis, Cut()) for axis in range(len(x.shape))]
    if all(item.begin is None and item.end is None and item.step == 1 for item in every):
        return x
    return context.op(
        "slice_by_index",
        x=x,
        begin=sizing.vector(context, [0 if item.begin is None else item.begin for item in every]),
        end=sizing.vector(context, [0 if item.end is None else item.end for item in every]),
        stride=[item.step for item in every],
        begin_mask=[item.begin is None for item in every],
        end_mask=[item.end is None for item in every],
    )


# -- Split ---------------------------------------------------------------------------------


@lowers("Split")
def split(context: Context, node: onnx_ir.Node) -> None:
    """split; slices where the sizes of the parts are computed: equal ones, the last the rest."""
    x = context.var(node.inputs[0])
    axis = number(node, "axis", 0) % len(x.shape)
    count = len(node.outputs)
    if count == 1:
        context.give(node.outputs[0], x)
        return
    parts = _parts(context, node, x, axis)
    known = sizing.numbers(parts)
    if known is not None:
        if 0 in known:
            raise Refused(limits.EMPTY)
        made = context.op("split", x=x, split_sizes=known, axis=axis)
    else:
        made = _sliced(context, x, axis, parts)
    for output, var in zip(node.outputs, made, strict=True):
        context.give(output, var)


def _parts(context: Context, node: onnx_ir.Node, x: Var, axis: int) -> list[Size]:
    """The sizes of the parts; where none are given, equal ones, and the rest for the last."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        array = context.array(node.inputs[1])
        if array is not None:
            return [int(item) for item in array.ravel()]
        return sizing.elements(context, context.var(node.inputs[1]))
    count = number(node, "num_outputs", len(node.outputs))
    whole = sizing.size(context, x, axis)
    more = sizing.compute(context, "add", whole, count - 1)
    part = sizing.compute(context, "floor_div", more, count)
    used = sizing.compute(context, "mul", part, count - 1)
    return [*[part] * (count - 1), sizing.compute(context, "sub", whole, used)]


def _sliced(context: Context, x: Var, axis: int, parts: list[Size]) -> list[Var]:
    made: list[Var] = []
    begin: Size = 0
    for place, part in enumerate(parts):
        end = sizing.compute(context, "add", begin, part)
        last = place == len(parts) - 1
        made.append(cut(context, x, {axis: Cut(begin or None, None if last else end)}))
        begin = end
    return made


@lowers("Concat")
def concat(context: Context, node: onnx_ir.Node) -> None:
    """concat of all that have elements."""
    kept = [value for value in node.inputs if not _empty(context, value)]
    if not kept:
        raise Refused(limits.EMPTY)
    parts = [context.var(value) for value in kept]
    axis = number(node, "axis", 0)
    made = parts[0] if len(parts) == 1 else context.op("concat", values=parts, axis=axis)
    context.give(node.outputs[0], made)


def _empty(context: Context, value: onnx_ir.Value | None) -> bool:
    array = context.array(value)
    return array is not None and array.size == 0
