"""DFT and STFT as products with constant matrices of cosines and sines.

    X[k] = sum over n of x[n] exp(-2 pi i n k / N)        the inverse with +, and divided by N

Real and imaginary parts lie side by side, so that one product does for both. The matrix also cuts
or lengthens the signal to N, and holds an STFT's window.

Source: the operator pages ``DFT`` and ``STFT``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from emitters.lowering.attributes import number
from emitters.lowering.dims import number_of
from emitters.lowering.refused import Refused

Array = np.ndarray[Any, Any]

LARGEST = 1 << 24
"""Most elements of a matrix: 64 MiB."""


@dataclass(frozen=True)
class Dft:
    """A DFT's plan.

    Attributes:
        order: The input's axes for the product: the signal's, then that of the parts, at the end.
        back: The product's axes as the output has them.
        matrix: [size * parts, bins * 2], float64.
    """

    order: list[int]
    back: list[int]
    matrix: Array


def dft_of(
    node: onnx_ir.Node, shape: Sequence[object], axis: Array | None, length: Array | None
) -> Dft:
    """A node's plan.

    Args:
        node: With ``inverse`` and ``onesided``.
        shape: The input's; what isn't a number is free.
        axis, length: The node's inputs of these names, one element each; None where left out.

    Raises:
        Refused: The axis is free, or the matrix would be too large.
    """
    rank = len(shape)
    along = (-2 if axis is None else int(axis.item())) % rank
    size = number_of(shape[along])
    count = size if length is None else int(length.item())
    if size is None or count is None:
        raise Refused("a DFT along a free axis", "fix the size (--input)")
    inverse, onesided = bool(number(node, "inverse", 0)), bool(number(node, "onesided", 0))
    if inverse and onesided:
        raise Refused("an inverse DFT of half a spectrum")
    order = [*(a for a in range(rank - 1) if a != along), along, rank - 1]
    matrix = _matrix(size, count, parts_of(shape), inverse, onesided)
    return Dft(order, [order.index(a) for a in range(rank)], matrix)


def stft_matrix(
    node: onnx_ir.Node, width: int, shape: Sequence[object], window: Array | None
) -> Array:
    """What the frames of an STFT, [..., width * parts], are multiplied with.

    Args:
        node: With ``onesided``.
        width: A frame's length.
        shape: The signal's.
        window: Its values, [width], where they are known.

    Raises:
        Refused: It would be too large.
    """
    parts = parts_of(shape)
    matrix = _matrix(width, width, parts, False, bool(number(node, "onesided", 1)))
    if window is None:
        return matrix
    scaled: Array = matrix * np.repeat(window.astype(np.float64), parts)[:, None]
    return scaled


def parts_of(shape: Sequence[object]) -> int:
    """1 of real numbers, 2 of complex ones.

    Raises:
        Refused: The last axis is free.
    """
    parts = number_of(shape[-1])
    if parts is None:
        raise Refused("a transform of numbers that may be real or complex", "fix the last axis")
    return parts


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
