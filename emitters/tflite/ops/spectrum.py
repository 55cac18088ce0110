"""DFT and STFT: FULLY_CONNECTED with constant matrices. RFFT2D takes powers of two alone."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.lowering.plans.spectrum import dft_of, stft_matrix
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import Array, DataType, Shape, Tensor
from emitters.tflite.registry import lowers


@lowers("DFT")
def dft(context: Context, node: onnx_ir.Node) -> None:
    """The signal's axis is moved before that of the parts, and back at the end."""
    x = _floats(context.tensor(node.inputs[0]))
    axis, length = _given(context, node, 2, "axis"), _given(context, node, 1, "length")
    plan = dft_of(node, x.shape, axis, length)
    made = _product(context, build.transpose(context, x, plan.order), plan.matrix)
    context.give(node.outputs[0], build.transpose(context, made, plan.back))


@lowers("STFT")
def stft(context: Context, node: onnx_ir.Node) -> None:
    """GATHER cuts the frames; a window that is fed multiplies them."""
    x = _floats(context.tensor(node.inputs[0]))
    step = int(context.needed(node, 1, "frame step").item())
    window = context.optional(node, 2)
    asked = _given(context, node, 3, "frame length")
    width = window.shape[0] if window is not None else None
    width = width if asked is None else int(asked.item())
    if not isinstance(width, int):
        raise Refused("an STFT whose frames have no known length", "fix it (--input)")
    frames = _frames(context, x, width, step)
    matrix = stft_matrix(node, width, x.shape, window.data if window is not None else None)
    if window is not None and window.data is None:
        column = build.reshape(context, window, (1, 1, width, 1))
        frames = build.binary(context, "MUL", frames, column)
    context.give(node.outputs[0], _product(context, frames, matrix))


def _frames(context: Context, x: Tensor, width: int, step: int) -> Tensor:
    """[batch, frames, width, parts] of [batch, length, parts]."""
    length = x.shape[1]
    places = np.arange(width, dtype=np.int32)
    if isinstance(length, int):
        count: int | str = (length - width) // step + 1
        starts = np.arange(int(count), dtype=np.int32) * step
        indices = context.constant(starts[:, None] + places)
    else:
        count = f"{context.node}?frames"
        size = build.reshape(context, context.size(length), ())
        zero, one = (context.constant(np.asarray(n, np.int32)) for n in (0, step))
        end = build.binary(context, "SUB", size, context.constant(np.asarray(width - 1, np.int32)))
        starts_now = context.emit("RANGE", [zero, end, one], (count,), DataType.INT32)
        column = build.reshape(context, starts_now, (count, 1))
        indices = build.binary(context, "ADD", column, context.constant(places))
    shape: Shape = (x.shape[0], count, width, x.shape[2])
    return context.emit("GATHER", [x, indices], shape, options={"axis": 1, "batchDims": 0})


def _floats(x: Tensor) -> Tensor:
    if x.dtype != DataType.FLOAT:
        raise Refused(f"a transform of {x.dtype.name.lower()}", "cast to float32 in the model")
    return x


def _given(context: Context, node: onnx_ir.Node, index: int, what: str) -> Array | None:
    """A constant input; None where it is left out."""
    left_out = index >= len(node.inputs) or node.inputs[index] is None
    return None if left_out else context.needed(node, index, what)


def _product(context: Context, x: Tensor, matrix: Array) -> Tensor:
    """[..., bins, 2] of [..., size, parts]."""
    flat = build.reshape(context, x, (*x.shape[:-2], matrix.shape[0]))
    weights = context.constant(matrix.T.astype(np.float32))
    shape = (*flat.shape[:-1], matrix.shape[1])
    options = {"fusedActivationFunction": 0, "weightsFormat": 0, "keepNumDims": True}
    made = context.emit("FULLY_CONNECTED", [flat, weights, None], shape, options=options)
    return build.reshape(context, made, (*x.shape[:-2], matrix.shape[1] // 2, 2))
