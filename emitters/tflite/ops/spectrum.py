"""DFT and STFT: products with constant matrices of cosines and sines.

    X[k] = sum over n of x[n] exp(-2 pi i n k / N)        the inverse with +, and divided by N

Real and imaginary parts lie side by side, so that one FULLY_CONNECTED does for both. The matrix
also cuts or lengthens the signal to N, and holds an STFT's window. TFLite's RFFT2D takes powers of
two alone.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import Array, DataType, Shape, Tensor
from emitters.tflite.registry import lowers

LARGEST = 1 << 24
"""Most elements of a matrix: 64 MiB."""


@lowers("DFT")
def dft(context: Context, node: onnx_ir.Node) -> None:
    """The signal's axis is moved before that of the parts, and back at the end."""
    x = _floats(context.tensor(node.inputs[0]))
    axis = -2
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        axis = int(context.needed(node, 2, "axis").item())
    axis %= x.rank
    size, length = x.shape[axis], x.shape[axis]
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        length = int(context.needed(node, 1, "length").item())
    if not isinstance(size, int) or not isinstance(length, int):
        raise Refused("a DFT along a free axis", "fix the size (--input)")
    inverse, onesided = _flag(node, "inverse", 0), _flag(node, "onesided", 0)
    if inverse and onesided:
        raise Refused("an inverse DFT of half a spectrum")
    order = [*(a for a in range(x.rank - 1) if a != axis), axis, x.rank - 1]
    moved = build.transpose(context, x, order)
    matrix = _matrix(size, length, _parts(x), bool(inverse), bool(onesided))
    made = _product(context, moved, matrix)
    back = [order.index(a) for a in range(x.rank)]
    context.give(node.outputs[0], build.transpose(context, made, back))


@lowers("STFT")
def stft(context: Context, node: onnx_ir.Node) -> None:
    """GATHER cuts the frames; a window that is fed multiplies them."""
    x = _floats(context.tensor(node.inputs[0]))
    step = int(context.needed(node, 1, "frame step").item())
    window = context.optional(node, 2)
    width = window.shape[0] if window is not None else None
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        width = int(context.needed(node, 3, "frame length").item())
    if not isinstance(width, int):
        raise Refused("an STFT whose frames have no known length", "fix it (--input)")
    frames = _frames(context, x, width, step)
    matrix = _matrix(width, width, _parts(x), False, bool(_flag(node, "onesided", 1)))
    if window is not None and window.data is not None:
        rows = np.repeat(window.data.astype(np.float64), _parts(x))
        matrix = matrix * rows[:, None]
    elif window is not None:
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


def _parts(x: Tensor) -> int:
    """1 of real numbers, 2 of complex ones."""
    parts = x.shape[-1]
    if not isinstance(parts, int):
        raise Refused("a transform of numbers that may be real or complex", "fix the last axis")
    return parts


def _flag(node: onnx_ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return attribute.as_int() if attribute is not None else default


def _matrix(size: int, length: int, parts: int, inverse: bool, onesided: bool) -> Array:
    """[size * parts, bins * 2], float64."""
    bins = length // 2 + 1 if onesided else length
    if size * parts * bins * 2 > LARGEST:
        raise Refused(f"a transform of {length}: its matrix would have over {LARGEST} elements")
    turns = np.outer(np.arange(size), np.arange(bins)) % length * (2 * np.pi / length)
    sign = 1.0 if inverse else -1.0
    cosines, sines = np.cos(turns), sign * np.sin(turns)
    cosines[length:], sines[length:] = 0, 0
    matrix = np.empty((size, parts, bins, 2))
    matrix[:, 0, :, 0], matrix[:, 0, :, 1] = cosines, sines
    if parts == 2:
        matrix[:, 1, :, 0], matrix[:, 1, :, 1] = -sines, cosines
    return matrix.reshape(size * parts, bins * 2) / (length if inverse else 1)


def _product(context: Context, x: Tensor, matrix: Array) -> Tensor:
    """[..., bins, 2] of [..., size, parts]."""
    flat = build.reshape(context, x, (*x.shape[:-2], matrix.shape[0]))
    weights = context.constant(matrix.T.astype(np.float32))
    shape = (*flat.shape[:-1], matrix.shape[1])
    options = {"fusedActivationFunction": 0, "weightsFormat": 0, "keepNumDims": True}
    made = context.emit("FULLY_CONNECTED", [flat, weights, None], shape, options=options)
    return build.reshape(context, made, (*x.shape[:-2], matrix.shape[1] // 2, 2))
