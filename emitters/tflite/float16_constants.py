"""Keeps the constants of a float16 model in float16: half the file.

    Given:   y = CONV_2D(x, W)          W float32, each number of which float16 holds exactly
    Result:  V = DEQUANTIZE(W')         W' float16
             y = CONV_2D(x, V)
LiteRT makes float32 of such a constant once, when it is opened, and computes in float32. Lowerings
never see this: they work with float32 constants, and may reorder and split them.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.edit import all_nodes, constant_tensor
from emitters.tflite.context import Program
from emitters.tflite.graph import Array, DataType, Operator, Subgraph, Tensor

SMALLEST = 1024
"""Elements from which a constant stays float16; smaller ones aren't worth the operator."""


def has_halves(model: onnx_ir.Model) -> bool:
    """Whether a model has float16 constants that are large enough."""
    stored = (constant_tensor(value) for node in all_nodes(model) for value in node.inputs)
    return any(t is not None and t.dtype == DataType.FLOAT16 and t.size >= SMALLEST for t in stored)


def store_halves(program: Program) -> None:
    """Changes the program's graphs in place; what float16 doesn't hold exactly stays float32."""
    known: dict[int, Array | None] = {}
    for graph in program.subgraphs:
        _store(graph, program, known)


def _store(graph: Subgraph, program: Program, known: dict[int, Array | None]) -> None:
    widened: dict[Tensor, Tensor] = {}
    first: list[Operator] = []
    for operator in graph.operators:
        for place, tensor in enumerate(operator.inputs):
            half = None if tensor is None else _half_of(tensor, known)
            if tensor is None or half is None:
                continue
            if tensor not in widened:
                first.append(_dequantized(tensor, half, program, operator.node))
                widened[tensor] = first[-1].outputs[0]
            operator.inputs[place] = widened[tensor]
    graph.operators = [*first, *graph.operators]


def _half_of(tensor: Tensor, known: dict[int, Array | None]) -> Array | None:
    """A constant in float16; None where it is none, is small, or loses by it."""
    if tensor.data is None or tensor.dtype != DataType.FLOAT or tensor.data.size < SMALLEST:
        return None
    if id(tensor.data) not in known:
        with np.errstate(over="ignore"):
            half = tensor.data.astype(np.float16)
        same = np.array_equal(half.astype(np.float32), tensor.data, equal_nan=True)
        known[id(tensor.data)] = half if same else None
    return known[id(tensor.data)]


def _dequantized(tensor: Tensor, half: Array, program: Program, node: str) -> Operator:
    stored = Tensor(program.name(f"{tensor.name}_half"), tensor.shape, DataType.FLOAT16, half)
    made = Tensor(tensor.name, tensor.shape, DataType.FLOAT)
    return Operator("DEQUANTIZE", [stored], [made], {}, node)
