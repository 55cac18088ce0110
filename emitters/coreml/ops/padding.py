"""Pad, where MIL's ``pad`` does it: of floats, and along the last two axes alone but for constants.

Borders are constant: computed ones of more than one axis fail when Core ML runs them.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir

from converter.ir.attributes import text
from converter.ir.edit import constant_tensor
from converter.ir.refused import Refused
from emitters.coreml.context import Context
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY, DataType

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}


def _borders(node: onnx_ir.Node) -> dict[int, tuple[int, int]] | None:
    """How many elements come before and after, by axis; None where that isn't known."""
    x, pads = node.inputs[0], constant_tensor(node.inputs[1])
    given = node.inputs[3] if len(node.inputs) > 3 else None
    axes = constant_tensor(given)
    if x is None or x.shape is None or pads is None or (given is not None and axes is None):
        return None
    rank, sides = len(x.shape), pads.numpy().reshape(2, -1).T.tolist()
    chosen = range(rank) if axes is None else [int(i) % rank for i in axes.numpy().ravel()]
    return {
        axis: (low, high) for axis, (low, high) in zip(chosen, sides, strict=True) if low or high
    }


def _takes(node: onnx_ir.Node, _target: int) -> bool:
    """Whether MIL's pad does it, or there is nothing to do."""
    x, borders, mode = node.inputs[0], _borders(node), text(node, "mode", "constant")
    if borders is None or x is None or x.shape is None:
        return False
    if not borders:
        return True
    if x.dtype not in (DataType.FLOAT, DataType.FLOAT16) or mode not in _MODES:
        return False
    if min(map(min, borders.values())) < 0:
        return False
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if mode == "constant":
        return value is None or constant_tensor(value) is not None
    return all(
        axis >= len(x.shape) - 2 and max(border) <= _most(x.shape[axis], mode)
        for axis, border in borders.items()
    )


def _most(size: int | onnx_ir.SymbolicDim, mode: str) -> float:
    """The widest border that MIL's pad gives an axis. Of a free one the size is 1 at least; what
    is too wide a reflection for it is so in ONNX Runtime and PyTorch too."""
    if mode == "reflect":
        return size - 1 if isinstance(size, int) else math.inf
    return size if isinstance(size, int) else 1


@lowers("Pad", legal=_takes)
def pad(context: Context, node: onnx_ir.Node) -> None:
    """See the module."""
    x, borders = context.var(node.inputs[0]), _borders(node)
    if borders is None or not _takes(node, context.target):
        raise Refused("a Pad of a tensor with an unknown number of axes")
    mode = text(node, "mode", "constant")
    value = context.array(node.inputs[2]) if mode == "constant" and len(node.inputs) > 2 else None
    if borders:
        number = NUMPY[context.type_of(x)](0 if value is None else value.item())
        first = min(borders)
        pads = [n for axis in range(first, len(x.shape)) for n in borders.get(axis, (0, 0))]
        # other modes too have a constant: coremltools checks its type wherever it moves this
        x = context.op(
            "pad", x=x, pad=np.asarray(pads, np.int32), mode=_MODES[mode], constant_val=number
        )
    context.give(node.outputs[0], x)
