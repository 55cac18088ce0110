"""Pad by a value: PAD and PADV2.

LiteRT's MIRROR_PAD, of one number after another, takes 10 to 20 times as long as a GATHER.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.attributes import text
from converter.ir.edit import constant_tensor
from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor, known
from emitters.tflite.registry import lowers

_MOST_AXES = 5
"""Axes that PAD and PADV2 take."""

_PADDED = frozenset(
    {DataType.FLOAT, DataType.UINT8, DataType.INT8, DataType.INT16, DataType.INT32,
     DataType.INT64, DataType.BOOL}
)  # fmt: skip


def _takes(node: onnx_ir.Node) -> bool:
    """Borders of a value that don't cut; negative ones that are computed LiteRT refuses."""
    known = constant_tensor(node.inputs[1])
    filled = text(node, "mode", "constant") == "constant"
    return filled and (known is None or bool((known.numpy() >= 0).all()))


@lowers("Pad", integer=True, legal=_takes)
def pad(context: Context, node: onnx_ir.Node) -> None:
    """Borders that hold nothing are left out."""
    x, chosen = context.tensor(node.inputs[0]), list(range(len(context.shape(node.inputs[0]))))
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        chosen = [int(i) % x.rank for i in context.needed(node, 3, "axes").ravel()]
    pads = context.array(node.inputs[1])
    if pads is None:
        made = _filled_at_run_time(context, node, x, chosen)
    elif not pads.any():
        made = x
    else:
        before, after = _spread([int(i) for i in pads.ravel()], chosen, x.rank)
        made = _filled(context, node, x, before, after)
        made.shape = context.shape(node.outputs[0])
    context.give(node.outputs[0], made)


def _spread(pads: list[int], axes: list[int], rank: int) -> tuple[list[int], list[int]]:
    before, after = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        before[axis], after[axis] = pads[place], pads[place + len(axes)]
    return before, after


def _filled(
    context: Context, node: onnx_ir.Node, x: Tensor, before: list[int], after: list[int]
) -> Tensor:
    if x.dtype not in _PADDED:
        raise Refused(f"PAD doesn't take {x.dtype.name.lower()}")
    if x.rank > _MOST_AXES:
        return _filled_flat(context, node, x, before, after)
    value = node.inputs[2] if len(node.inputs) > 2 else None
    stored = context.array(value)
    if value is not None and stored is None:
        pairs = np.asarray(list(zip(before, after, strict=True)), np.int32)
        fill = build.reshape(context, context.tensor(value), ())
        inputs = [x, context.constant(pairs), fill]
        return context.emit("PADV2", inputs, context.shape(node.outputs[0]))
    number = 0.0 if stored is None or stored.size == 0 else stored.item()
    if x.dtype == DataType.BOOL:
        if number:
            raise Refused("a Pad of bool with true")
        pairs = np.asarray(list(zip(before, after, strict=True)), np.int32)
        inputs = [x, context.constant(pairs)]
        return context.emit("PAD", inputs, context.shape(node.outputs[0]))
    if x.quant is not None and stored is not None and stored.dtype == x.dtype.numpy():
        number = (number - int(x.quant.zero_point[0])) * float(x.quant.scale[0])
    return build.pad(context, x, before, after, number)


def _filled_flat(
    context: Context, node: onnx_ir.Node, x: Tensor, before: list[int], after: list[int]
) -> Tensor:
    """With neighbouring axes that aren't padded as one."""
    sizes = known(x.shape)
    if sizes is None:
        raise Refused(f"a Pad of {x.rank} axes, some of them free: PAD takes {_MOST_AXES}")
    groups: list[list[int]] = []
    for axis in range(x.rank):
        plain = not before[axis] and not after[axis]
        if plain and groups and not before[groups[-1][-1]] and not after[groups[-1][-1]]:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) > _MOST_AXES:
        raise Refused(f"a Pad of {x.rank} axes: PAD takes {_MOST_AXES}")
    flat = build.reshape(context, x, [int(np.prod([sizes[a] for a in g])) for g in groups])
    low, high = ([side[g[0]] for g in groups] for side in (before, after))
    made = _filled_group(context, node, flat, low, high)
    return build.reshape(context, made, context.shape(node.outputs[0]))


def _filled_group(
    context: Context, node: onnx_ir.Node, x: Tensor, before: list[int], after: list[int]
) -> Tensor:
    value = node.inputs[2] if len(node.inputs) > 2 else None
    number = 0.0 if value is None else float(context.needed(node, 2, "padding value").item())
    return build.pad(context, x, before, after, number)


def _filled_at_run_time(
    context: Context, node: onnx_ir.Node, x: Tensor, axes: Sequence[int]
) -> Tensor:
    if x.quant is not None or x.rank > _MOST_AXES or x.dtype not in _PADDED:
        raise Refused("its pads are computed at run time", "fix the sizes (--batch N, --input)")
    limits = build.cast(context, context.tensor(node.inputs[1]), DataType.INT32)
    sides = build.transpose(context, build.reshape(context, limits, (2, len(axes))), [1, 0])
    if list(axes) != list(range(x.rank)):
        zeros = context.constant(np.zeros((1, 2), np.int32))
        whole = context.joined([sides, zeros])
        order = [list(axes).index(a) if a in axes else len(axes) for a in range(x.rank)]
        picks = {"axis": 0, "batchDims": 0}
        rows = [whole, context.integers(order)]
        sides = context.emit("GATHER", rows, (x.rank, 2), options=picks)
    value = context.optional(node, 2)
    shape = context.shape(node.outputs[0])
    if value is None:
        return context.emit("PAD", [x, sides], shape)
    return context.emit("PADV2", [x, sides, build.reshape(context, value, ())], shape)
