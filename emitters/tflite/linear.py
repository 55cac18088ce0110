"""Has a product with a constant matrix and the bias behind it be one operator, as TFLite has it.

    Given:   y = Add(MatMul(x, W), b)          W [I, O] and b [O] constants, or integers behind DQ
    Result:  y = layer::Linear(x, W, b)
A bias of its own would be an ADD of the whole tensor, and in int8 a rounding more.
"""

from __future__ import annotations

import math

import onnx_ir

from converter.ir.edit import constant_tensor, is_op, replace

LAYER = "modelyard.layer"
"""The domain of operators that TFLite has and ONNX hasn't."""

LINEAR = f"""<domain: "{LAYER}">
    Linear (x, weights, bias) => (y) {{ product = MatMul (x, weights) y = Add (product, bias) }}"""
"""What it is, as a function of the model."""


def join_bias(add: onnx_ir.Node) -> bool:
    """Puts a Linear where an Add and its product are, where that can be."""
    index = _product(add)
    if index is None:
        return False
    product, bias = add.inputs[index], add.inputs[1 - index]
    maker = product.producer() if product is not None else None
    assert maker is not None and maker.graph is not None
    made = onnx_ir.Node(LAYER, "Linear", [*maker.inputs, bias])
    replace(add, made)
    made.name = maker.name
    maker.graph.remove(maker, safe=True)
    return True


def _product(add: onnx_ir.Node) -> int | None:
    """Which input of an Add is a product that may take it in."""
    if not is_op(add, "Add"):
        return None
    for index, value in enumerate(add.inputs):
        other = add.inputs[1 - index]
        maker = value.producer() if value is not None else None
        if value is None or maker is None or not is_op(maker, "MatMul") or other is None:
            continue
        if len(value.uses()) != 1 or value.is_graph_output() or maker.graph is not add.graph:
            continue
        x, weights = maker.inputs
        rank = len(x.shape) if x is not None and x.shape is not None else 0
        shape, bias = _constant_shape(weights), _constant_shape(other)
        if rank < 2 or shape is None or bias is None or len(shape) != 2:
            continue
        if len(bias) <= rank and bias[-1:] == shape[1:] and math.prod(bias) == shape[1]:
            return index
    return None


def _constant_shape(value: onnx_ir.Value | None) -> tuple[int, ...] | None:
    """The shape of a constant, or of the real numbers that constant integers stand for."""
    maker = value.producer() if value is not None else None
    if maker is not None and is_op(maker, "DequantizeLinear"):
        value = maker.inputs[0]
    stored = constant_tensor(value)
    return None if stored is None else tuple(stored.numpy().shape)
