"""Keeps the constants of a float16 model in float16: half the file.

    Given:   y = CONV_2D(x, W)          W float32, each number of which float16 holds exactly
    Result:  V = DEQUANTIZE(W')         W' float16
             y = CONV_2D(x, V)
LiteRT makes float32 of such a constant once, when it is opened, and computes in float32. Lowerings
never see this: they work with float32 constants, and may reorder and split them.
"""

from __future__ import annotations

import weakref

import numpy as np
import onnx_ir

from converter.ir.edit import all_nodes, constant_tensor
from emitters.tflite.context import Program
from emitters.tflite.graph import Array, DataType, Operator, Subgraph, Tensor

SMALLEST = 1024
"""Elements from which a constant stays float16; smaller ones aren't worth the operator."""

_PIECE = 1 << 16
"""Elements that are compared at a time."""

_Known = dict[int, tuple["weakref.ref[Array]", Array | None]]
"""By where an array is: the array, and what it is in float16."""


def has_halves(model: onnx_ir.Model) -> bool:
    """Whether a model has float16 constants that are large enough."""
    stored = (constant_tensor(value) for node in all_nodes(model) for value in node.inputs)
    return any(t is not None and t.dtype == DataType.FLOAT16 and t.size >= SMALLEST for t in stored)


def store_halves(program: Program) -> None:
    """Changes the program's graphs in place; what float16 doesn't hold exactly stays float32.

    Each constant goes before the next is converted, where nobody else has it.
    """
    known: _Known = {}
    for graph in program.subgraphs:
        _store(graph, program, known)


def _store(graph: Subgraph, program: Program, known: _Known) -> None:
    taken: dict[Tensor, list[tuple[Operator, int]]] = {}
    for operator in graph.operators:
        for place, tensor in enumerate(operator.inputs):
            if tensor is not None and tensor.data is not None:
                taken.setdefault(tensor, []).append((operator, place))
    first: list[Operator] = []
    waiting = list(taken.items())[::-1]
    del taken, tensor
    while waiting:
        tensor, uses = waiting.pop()
        if (half := _half_of(tensor, known)) is not None:
            first.append(_dequantized(tensor, half, program, uses[0][0].node))
            for operator, place in uses:
                operator.inputs[place] = first[-1].outputs[0]
        del tensor
    graph.operators = [*first, *graph.operators]


def _half_of(tensor: Tensor, known: _Known) -> Array | None:
    """A constant in float16; None where it is small, or loses by it."""
    array = tensor.data
    if array is None or tensor.dtype != DataType.FLOAT or array.size < SMALLEST:
        return None
    seen, half = known.get(id(array), (None, None))
    if seen is None or seen() is not array:  # else another had the same place before
        half = _halved(array)
        known[id(array)] = weakref.ref(array), half
    return half


def _halved(array: Array) -> Array | None:
    """In float16, if that is the same; piece by piece, since comparing takes several copies."""
    half = np.empty_like(array, np.float16)
    order = np.argsort([-abs(step) for step in array.strides], kind="stable")  # as it lies there
    numbers, halves = array.transpose(order), half.transpose(order)
    rows = max(_PIECE * len(numbers) // array.size, 1)
    for at in range(0, len(numbers), rows):
        part, into = numbers[at : at + rows], halves[at : at + rows]
        with np.errstate(over="ignore"):
            into[...] = part
        if not np.array_equal(into.astype(np.float32), part, equal_nan=True):
            return None
    return half


def _dequantized(tensor: Tensor, half: Array, program: Program, node: str) -> Operator:
    stored = Tensor(program.name(f"{tensor.name}_half"), tensor.shape, DataType.FLOAT16, half)
    made = Tensor(tensor.name, tensor.shape, DataType.FLOAT)
    return Operator("DEQUANTIZE", [stored], [made], {}, node)
