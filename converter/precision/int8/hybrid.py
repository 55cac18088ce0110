"""What kernels make of float activations beside int8 weights, for judging a model in ONNX Runtime.

    Given:   y = MatMul(x, DequantizeLinear(W8))
    Result:  y = MatMul(r, DequantizeLinear(W8))     r is x in 255 steps of each row's range
Such kernels (hybrid ones) round as they run; the graph doesn't say it, so that a model
that is searched for by its graph alone would be closer to float than the artifact is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant
from converter.ir.model import Model

STEPS = 255.0
_TINY = float(np.finfo(np.float32).tiny)


def with_rounding(model: Model, nodes: Collection[str]) -> Model:
    """A copy in which the first input of each node is rounded: by rows of the last axis, of a
    convolution by images."""
    made = model.copy()
    for node in list(made.nodes()):
        if node.name in nodes:
            _round(node)
    return made


def _round(node: onnx_ir.Node) -> None:
    x, graph = node.inputs[0], node.graph
    assert x is not None and isinstance(graph, onnx_ir.Graph)
    added: list[onnx_ir.Node] = []

    def constant(array: Any, dtype: Any) -> onnx_ir.Value:
        name = f"{node.name}_judged_{len(added)}_{len(graph.initializers)}"
        return add_constant(graph, name, np.asarray(array, dtype))

    def op(kind: str, *inputs: onnx_ir.Value) -> onnx_ir.Value:
        new = onnx_ir.node(kind, list(inputs), name=f"{node.name}_judged_{kind}_{len(added)}")
        new.outputs[0].name = new.name
        new.outputs[0].type = x.type
        added.append(new)
        return new.outputs[0]

    rank = len(x.shape) if x.shape is not None else 0
    axes = constant([*range(1, rank)] if node.op_type == "Conv" and rank else [-1], np.int64)
    zero, tiny = constant(0.0, np.float32), constant(_TINY, np.float32)
    low = op("Min", op("ReduceMin", x, axes), zero)
    high = op("Max", op("ReduceMax", x, axes), zero)
    step = op("Max", op("Div", op("Sub", high, low), constant(STEPS, np.float32)), tiny)
    places = op("Round", op("Div", op("Sub", x, low), step))
    rounded = op("Add", op("Mul", places, step), low)
    graph.insert_before(node, added)
    node.replace_input_with(0, rounded)
