"""Weights in int8 beside activations in float32: what LiteRT calls hybrid, or dynamic range.

    Given:   y = CONV_2D(x, W, b)         W float32, each channel q * scale with q in [-127, 127]
    Result:  y = CONV_2D(x, q, b)         q int8 with its scales
LiteRT's kernels of such an operator round its input to eight bits, by a scale and zero point of
each row (or image) that they take from its values.

The graph says which weights these are: those that DequantizeLinear gives. Lowerings work with
their real numbers, and may reorder them; here the integers are found again, exactly.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from emitters.tflite.context import Program
from emitters.tflite.graph import Array, DataType, Operator, Quant, Subgraph, Tensor, makers_of

CHANNELS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
"""The operators whose kernels do so, and the axis of their weights that has the scales."""

MOVES = ("EXPAND_DIMS", "PAD", "RELU", "RESHAPE", "SQUEEZE", "TRANSPOSE")
"""What may stand between an operand and the DEQUANTIZE that gives it."""

LIMIT = 127
ROUNDING = 1e-6
"""By how much a product q * scale may differ from the weight, of the channel's largest."""

_PIECE = 1 << 16
"""Elements of a weight that are looked at a time: comparing takes several copies."""

_Known = dict[tuple[int, int], tuple["weakref.ref[Array]", Tensor | None]]
"""By where a weight is and its axis: the weight, and what it is in int8."""


@dataclass(frozen=True)
class StoredWeight:
    values: Array
    quant: Quant


def store_weights(program: Program) -> int:
    """Changes the program's graphs in place; gives how many operators have int8 weights then."""
    known: _Known = {}
    return sum(_store(graph, program, known) for graph in program.subgraphs)


def _store(graph: Subgraph, program: Program, known: _Known) -> int:
    count, makers = 0, makers_of(graph)
    for operator in graph.operators:
        if not _takes_both(operator) or _was_integers(operator.inputs[0], makers):
            continue
        weights, axis = operator.inputs[1], CHANNELS[operator.op]
        assert weights is not None and weights.data is not None
        key = (id(weights.data), axis)
        if key not in known or known[key][0]() is not weights.data:  # another had its place
            known[key] = weakref.ref(weights.data), _tensor(weights, axis, program)
        stored = known[key][1]
        if stored is not None:
            operator.inputs[1] = stored
            if operator.op == "FULLY_CONNECTED":  # convolutions with a scale a channel always are
                operator.options["asymmetricQuantizeInputs"] = True
            count += 1
    return count


def _was_integers(x: Tensor | None, makers: Mapping[Tensor, Operator]) -> bool:
    """Whether the graph says what integers an operand is: they aren't rounded by other scales.
    What a budget takes out of int8 has float weights there (``precision/int8/weight_only.py``).
    """
    while x is not None and x in makers and makers[x].op in MOVES:
        x = makers[x].inputs[0]
    return x is not None and x in makers and makers[x].op == "DEQUANTIZE"


def _takes_both(operator: Operator) -> bool:
    """Whether it is of float32 with constant weights, and there is a kernel for such ones in int8.

    There is none for a convolution of groups; one of a single channel is DEPTHWISE_CONV_2D.
    """
    if operator.op not in CHANNELS:
        return False
    x, weights = operator.inputs[0], operator.inputs[1]
    if x is None or weights is None or weights.data is None:
        return False
    if x.dtype != DataType.FLOAT or weights.dtype != DataType.FLOAT or x.rank == 0:
        return False
    return operator.op != "CONV_2D" or x.shape[3] == weights.shape[3]


def _tensor(weights: Tensor, axis: int, program: Program) -> Tensor | None:
    assert weights.data is not None
    found = integers(weights.data, axis)
    if found is None:
        return None
    name = program.name(f"{weights.name}_int8")
    return Tensor(name, weights.shape, DataType.INT8, found.values, found.quant)


def integers(weights: Array, axis: int) -> StoredWeight | None:
    """Weights as int8 with a scale for each index of ``axis``; None where they aren't multiples
    of scales that make the largest 127."""
    values = np.empty_like(weights, np.int8)
    scales: list[Array] = []
    count = max(_PIECE * weights.shape[axis] // max(weights.size, 1), 1)
    for at in range(0, weights.shape[axis], count):
        part = (slice(None),) * axis + (slice(at, at + count),)
        found = _piece(weights[part], axis)
        if found is None:
            return None
        values[part], scale = found
        scales.append(scale)
    scale = np.concatenate([np.zeros(0, np.float32), *scales])
    return StoredWeight(values, Quant(scale, np.zeros(scale.shape, np.int64), axis))


def _piece(weights: Array, axis: int) -> tuple[Array, Array] | None:
    """Some channels' integers and scales."""
    others = tuple(place for place in range(weights.ndim) if place != axis)
    largest = np.abs(weights).max(axis=others)
    scale = np.where(largest > 0, largest / LIMIT, 1).astype(np.float32)
    shape = [-1 if place == axis else 1 for place in range(weights.ndim)]
    steps = scale.reshape(shape)
    values = np.rint(weights / steps)
    if np.any(np.abs(values * steps - weights) > ROUNDING * largest.reshape(shape)):
        return None
    return values.astype(np.int8), scale
