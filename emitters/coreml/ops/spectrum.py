"""DFT and STFT: products with constant matrices of cosines and sines.

    X[k] = sum over n of x[n] exp(-2 pi i n k / N)        the inverse with +, and divided by N

Real and imaginary parts lie side by side, so that one product does for both. The matrix also cuts
or lengthens the signal to N, and holds an STFT's window. MIL has no transform of its own.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import reshape, size, sizes
from emitters.coreml.types import NUMPY, Array
from emitters.lowering.attributes import number
from emitters.lowering.refused import Refused

LARGEST = 1 << 24
"""Most elements of a matrix: 64 MiB."""


@lowers("DFT")
def dft(context: Context, node: onnx_ir.Node) -> None:
    """The signal's axis is moved before that of the parts, and back at the end."""
    x = context.var(node.inputs[0])
    rank = len(x.shape)
    given = context.given(node, 2, "axes")
    axis = (-2 if given is None else int(given.item())) % rank
    asked = context.given(node, 1, "lengths")
    count, length = x.shape[axis], x.shape[axis] if asked is None else int(asked.item())
    if free(count) or free(length):
        raise Refused("a DFT along a free axis", "fix the size (--input)")
    inverse, onesided = bool(number(node, "inverse", 0)), bool(number(node, "onesided", 0))
    if inverse and onesided:
        raise Refused("an inverse DFT of half a spectrum")
    order = [*(a for a in range(rank - 1) if a != axis), axis, rank - 1]
    matrix = _matrix(int(count), int(length), _parts(x), inverse, onesided)
    made = _product(context, _transposed(context, x, order), matrix)
    back = [order.index(a) for a in range(rank)]
    context.give(node.outputs[0], _transposed(context, made, back))


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
    parts = _parts(x)
    frames = _frames(context, x, int(width), step)
    matrix = _matrix(int(width), int(width), parts, False, bool(number(node, "onesided", 1)))
    fixed = context.array(node.inputs[2]) if window is not None else None
    if fixed is not None:
        matrix = matrix * np.repeat(fixed.astype(np.float64), parts)[:, None]
    elif window is not None:
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


def _parts(x: Var) -> int:
    """1 of real numbers, 2 of complex ones."""
    parts = x.shape[-1]
    if free(parts):
        raise Refused("a transform of numbers that may be real or complex", "fix the last axis")
    return int(parts)


def _matrix(count: int, length: int, parts: int, inverse: bool, onesided: bool) -> Array:
    """[count * parts, bins * 2], float64."""
    bins = length // 2 + 1 if onesided else length
    if count * parts * bins * 2 > LARGEST:
        raise Refused(f"a transform of {length}: its matrix would have over {LARGEST} elements")
    turns = np.outer(np.arange(count), np.arange(bins)) % length * (2 * np.pi / length)
    sign = 1.0 if inverse else -1.0
    cosines, sines = np.cos(turns), sign * np.sin(turns)
    cosines[length:], sines[length:] = 0, 0
    matrix = np.empty((count, parts, bins, 2))
    matrix[:, 0, :, 0], matrix[:, 0, :, 1] = cosines, sines
    if parts == 2:
        matrix[:, 1, :, 0], matrix[:, 1, :, 1] = -sines, cosines
    return matrix.reshape(count * parts, bins * 2) / (length if inverse else 1)


def _product(context: Context, x: Var, matrix: Array) -> Var:
    """[..., bins, 2] of [..., count, parts]."""
    outer = sizes(context, x)[:-2]
    flat = reshape(context, x, [*outer, matrix.shape[0]])
    weight = context.const(matrix.astype(NUMPY[context.type_of(x)]))
    made = context.op("matmul", x=flat, y=weight)
    return reshape(context, made, [*outer, matrix.shape[1] // 2, 2])
