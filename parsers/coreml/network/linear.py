"""Products with matrices, and rows of matrices: innerProduct, batchedMatmul, embedding."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.network.registry import Layer, layer
from parsers.coreml.network.tensors import Network
from parsers.coreml.network.weights import values
from parsers.coreml.reader import DataType
from parsers.coreml.refusal import Refusal


@layer("innerProduct")
def inner_product(net: Network, at: Layer) -> onnx_ir.Value:
    """linear; of four axes and more the last three are one, and there again afterwards."""
    how, x = at.parameters, at.inputs[0]
    out, inner = int(how.outputChannels), int(how.inputChannels)
    if how.int8DynamicQuantize:
        raise Refusal("its input is quantized while it runs (int8DynamicQuantize)")
    rank = net.need_rank(x, 1, 2, 3, 4, 5)
    leading = [0] * (rank - 3)
    flat = net.shaped(x, [*leading, inner]) if rank > 3 else x
    bias = values(how.bias, [out]) if how.hasBias else None
    found = net.op("linear", x=flat, weight=values(how.weights, [out, inner]), bias=bias)
    return net.shaped(found, [*leading, out, 1, 1]) if rank > 3 else found


@layer("batchedMatmul")
def batched_matmul(net: Network, at: Layer) -> onnx_ir.Value:
    """matmul of two inputs, or of one with a matrix."""
    how, x = at.parameters, at.inputs[0]
    if len(at.inputs) == 2:
        y = at.inputs[1]
        if 1 in (net.need_rank(x), net.need_rank(y)):
            raise Refusal("an operand of one axis")
        turned = {"transpose_x": bool(how.transposeA), "transpose_y": bool(how.transposeB)}
        return net.op("matmul", x=x, y=y, **turned)
    if how.int8DynamicQuantize:
        raise Refusal("its input is quantized while it runs (int8DynamicQuantize)")
    first, second = int(how.weightMatrixFirstDimension), int(how.weightMatrixSecondDimension)
    bias = values(how.bias, [second]) if how.hasBias else None
    return net.op("linear", x=x, weight=values(how.weights, [second, first]), bias=bias)


@layer("embedding")
def embedding(net: Network, at: Layer) -> onnx_ir.Value:
    """A matrix' column for each number; the last three axes are of size 1."""
    how, x = at.parameters, at.inputs[0]
    rank = net.need_rank(x, 4, 5)
    for axis in (-3, -2, -1):
        if net.size(x, axis) != 1:
            raise Refusal(f"its input has {net.size(x, axis)} elements along axis {axis}")
    leading = net.shaped(x, [0] * (rank - 3))
    found = _rows(net, at, leading, int(how.inputDim), int(how.outputChannels))
    return net.node("Unsqueeze", [found, net.ints([-2, -1])])


@layer("embeddingND")
def embedding_nd(net: Network, at: Layer) -> onnx_ir.Value:
    """A matrix' column for each number; the last axis is of size 1, and the column's then."""
    how, x = at.parameters, at.inputs[0]
    if net.size(x, -1) != 1:
        raise Refusal(f"its input's last axis has {net.size(x, -1)} elements, not 1")
    flat = net.node("Squeeze", [x, net.ints([-1])])
    return _rows(net, at, flat, int(how.vocabSize), int(how.embeddingSize))


def _rows(net: Network, at: Layer, index: onnx_ir.Value, count: int, size: int) -> onnx_ir.Value:
    how = at.parameters
    table = values(how.weights, [size, count])
    whole = net.node("Cast", [index], {"to": int(DataType.INT64)}, DataType.INT64)
    turned = net.const(np.ascontiguousarray(table.T))
    found = net.node("Gather", [turned, whole], {"axis": 0})
    return net.node("Add", [found, net.const(values(how.bias, [size]))]) if how.hasBias else found
