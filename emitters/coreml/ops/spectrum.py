"""DFT and STFT: matmul with constant matrices, since MIL has no transform of its own."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import reshape, size, sizes
from emitters.coreml.types import NUMPY, Array
from emitters.lowering.plans.spectrum import dft_of, stft_matrix
from emitters.lowering.refused import Refused


@lowers("DFT")
def dft(context: Context, node: onnx_ir.Node) -> None:
    """The signal's axis is moved before that of the parts, and back at the end."""
    x = context.var(node.inputs[0])
    axis, length = context.given(node, 2, "axes"), context.given(node, 1, "lengths")
    plan = dft_of(node, x.shape, axis, length)
    made = _product(context, _transposed(context, x, plan.order), plan.matrix)
    context.give(node.outputs[0], _transposed(context, made, plan.back))


@lowers("STFT")
def stft(context: Context, node: onnx_ir.Node) -> None:
    """gather cuts the frames; a window that is fed multiplies them."""
    x = context.var(node.inputs[0])
    step = int(context.needed(node, 1, "frame steps").item())
    window = context.optional(node, 2)
    asked = context.given(node, 3, "frame lengths")
    width = window.shape[0] if asked is None and window is not None else None
    width = width if asked is None else int(asked.item())
    if width is None or free(width):
        raise Refused("an STFT whose frames have no known length", "fix it (--input)")
    frames = _frames(context, x, int(width), step)
    fixed = context.array(node.inputs[2]) if window is not None else None
    matrix = stft_matrix(node, int(width), x.shape, fixed)
    if window is not None and fixed is None:
        column = context.op("reshape", x=window, shape=[1, 1, int(width), 1])
        frames = context.op("mul", x=frames, y=column)
    context.give(node.outputs[0], _product(context, frames, matrix))


def _frames(context: Context, x: Var, width: int, step: int) -> Var:
    """[batch, frames, width, parts] of [batch, length, parts]."""
    length = size(context, x, 1)
    places = np.arange(width, dtype=np.int32)
    if isinstance(length, int):
        starts = np.arange((length - width) // step + 1, dtype=np.int32) * np.int32(step)
        return context.op("gather", x=x, indices=starts[:, None] + places, axis=1)
    whole = context.op("squeeze", x=length, axes=[0])
    end = context.op("sub", x=whole, y=np.int32(width - 1))
    first = context.op("range_1d", start=np.int32(0), end=end, step=np.int32(step))
    column = context.op("expand_dims", x=first, axes=[1])
    indices = context.op("add", x=column, y=places)
    return context.op("gather", x=x, indices=indices, axis=1)


def _transposed(context: Context, x: Var, order: list[int]) -> Var:
    return x if order == sorted(order) else context.op("transpose", x=x, perm=order)


def _product(context: Context, x: Var, matrix: Array) -> Var:
    """[..., bins, 2] of [..., count, parts]."""
    outer = sizes(context, x)[:-2]
    flat = reshape(context, x, [*outer, matrix.shape[0]])
    weight = context.const(matrix.astype(NUMPY[context.type_of(x)]))
    made = context.op("matmul", x=flat, y=weight)
    return reshape(context, made, [*outer, matrix.shape[1] // 2, 2])
