"""Which nodes are a layer: a Gemm of constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir

from converter.ir.model import Model
from modelyard_toy.child.layers import Layer


def gemm(node: onnx_ir.Node) -> tuple[Any, Any] | None:
    """The matrix, (inputs, outputs), and the bias of a layer; None where it is none."""
    plain = {"alpha": 1.0, "beta": 1.0, "transA": 0}
    values = {name: attribute.value for name, attribute in node.attributes.items()}
    constants = [value.const_value if value else None for value in node.inputs[1:]]
    tensors = [tensor.numpy() for tensor in constants if tensor is not None]
    if node.op_type != "Gemm" or len(tensors) != 2:
        return None
    if any(values.get(name, default) != default for name, default in plain.items()):
        return None
    matrix, bias = tensors
    matrix = matrix.T if values.get("transB") else matrix
    return matrix, np.broadcast_to(bias, matrix.shape[1:])


def layers_of(model: Model) -> tuple[list[Layer], list[onnx_ir.Node]]:
    """The model's layers, in order, and the nodes that are none."""
    found: list[Layer] = []
    others, value = [], model.graph.graph.inputs[0]
    for node in model.graph.graph:
        layer = gemm(node) if node.inputs[0] is value else None
        if layer:
            found.append((*layer, False))
        elif node.inputs[0] is value and found and node.op_type == "Relu" and not found[-1][2]:
            found[-1] = (*found[-1][:2], True)
        else:
            others.append(node)
        value = node.outputs[0]
    return found, others
