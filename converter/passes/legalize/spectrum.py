"""DFT and STFT as products with constant matrices of cosines and sines; mel weights, a constant.

    X[k] = sum over n of x[n] exp(-2 pi i n k / N)        the inverse with +, and divided by N

Real and imaginary parts lie side by side, so that one product does for both. The matrix also cuts
or lengthens the signal to N, and holds an STFT's window.

Source: the operator pages ``DFT``, ``STFT`` and ``MelWeightMatrix``.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Array, Builder, Free, Size, Value, dims, rank

LARGEST = 1 << 24
"""Most elements of a matrix: 64 MiB."""


def dft(b: Builder, node: onnx_ir.Node) -> Value:
    """The signal's axis is moved before that of the parts, and back at the end."""
    x = node.inputs[0]
    assert x is not None
    axis, length = b.given(2, "axis"), b.given(1, "length")
    along = (-2 if axis is None else int(axis.item())) % rank(x)
    size = dims(x)[along]
    if not isinstance(size, int):
        raise Refused("a DFT along a free axis", "fix the size (--input)")
    inverse, onesided = (bool(number(node, name, 0)) for name in ("inverse", "onesided"))
    if inverse and onesided:
        raise Refused("an inverse DFT of half a spectrum")
    count = size if length is None else int(length.item())
    matrix = _matrix(size, count, _parts(x), inverse=inverse, onesided=onesided)
    order = [*(a for a in range(rank(x) - 1) if a != along), along, rank(x) - 1]
    made = _product(b, b.transpose(x, order), matrix)
    return b.transpose(made, [order.index(a) for a in range(rank(x))])


def stft(b: Builder, node: onnx_ir.Node) -> Value:
    """A Gather cuts the frames; a window that is fed multiplies them."""
    x, window = node.inputs[0], b.input(2)
    assert x is not None
    step, asked = int(b.needed(1, "frame step").item()), b.given(3, "frame length")
    width = dims(window)[0] if window is not None and window.shape is not None else None
    width = width if asked is None else int(asked.item())
    if not isinstance(width, int):
        raise Refused("an STFT with frames of unknown length", "fix it (--input)")
    frames = _frames(b, x, width, step)
    parts, onesided = _parts(x), bool(number(node, "onesided", 1))
    matrix = _matrix(width, width, parts, inverse=False, onesided=onesided)
    if window is not None:
        known = b.constant(window)
        if known is None:
            frames = b.op("Mul", frames, b.reshape(window, [width, 1]))
        else:
            matrix = matrix * np.repeat(known.astype(np.float64), parts)[:, None]
    return _product(b, frames, matrix)


def _frames(b: Builder, x: Value, width: int, step: int) -> Value:
    """[batch, frames, width, parts] of [batch, length, parts]."""
    length, places = b.size(x, 1), np.arange(width)
    indices: Array | Value
    if isinstance(length, Free):
        zero, by, margin = (np.asarray(number, np.int64) for number in (0, step, width - 1))
        end = b.op("Sub", b.squeeze(length.value, [0]), margin)
        starts = b.op("Range", zero, end, by)
        indices = b.op("Add", b.unsqueeze(starts, [1]), places)
    else:
        indices = np.arange((length - width) // step + 1)[:, None] * step + places
    return b.op("Gather", x, indices, axis=1)


def _parts(x: Value) -> int:
    """1 of real numbers, 2 of complex ones."""
    parts = dims(x)[-1]
    if not isinstance(parts, int):
        raise Refused("a transform of numbers that could be real or complex", "fix the last axis")
    return parts


def _matrix(size: int, length: int, parts: int, *, inverse: bool, onesided: bool) -> Array:
    """[size * parts, bins * 2], float64."""
    bins = length // 2 + 1 if onesided else length
    if size * parts * bins * 2 > LARGEST:
        raise Refused(
            f"a transform of {length}: its matrix would have more than {LARGEST} elements"
        )
    turns = np.outer(np.arange(size), np.arange(bins)) % length * (2 * np.pi / length)
    sign = 1.0 if inverse else -1.0
    cosines, sines = np.cos(turns), sign * np.sin(turns)
    cosines[length:], sines[length:] = 0, 0
    matrix = np.empty((size, parts, bins, 2))
    matrix[:, 0, :, 0], matrix[:, 0, :, 1] = cosines, sines
    if parts == 2:
        matrix[:, 1, :, 0], matrix[:, 1, :, 1] = -sines, cosines
    return matrix.reshape(size * parts, bins * 2) / (length if inverse else 1)


def _product(b: Builder, x: Value, matrix: Array) -> Value:
    """[..., bins, 2] of [..., size, parts]."""
    outer: list[Size] = b.sizes(x)[:-2]
    assert x.dtype is not None
    flat = b.reshape(x, [*outer, matrix.shape[0]])
    made = b.op("MatMul", flat, matrix.astype(x.dtype.numpy()))
    return b.reshape(made, [*outer, matrix.shape[1] // 2, 2])


def mel_weight_matrix(b: Builder, node: onnx_ir.Node) -> Value:
    """A constant, since a model that has one knows what it asks for: folded where it isn't the
    graph's output, but in front of that."""
    inputs = "number of bins", "DFT length", "sample rate", "lower edge", "upper edge"
    for index, what in enumerate(inputs):
        b.needed(index, what)
    if not node.outputs[0].is_graph_output():
        raise Refused("ONNX Runtime doesn't compute it")
    kind = number(node, "output_datatype", onnx_ir.DataType.FLOAT)
    return b.op("Identity", b.op(node.op_type, *node.inputs, output_datatype=kind))


REWRITES = {"DFT": dft, "MelWeightMatrix": mel_weight_matrix, "STFT": stft}
