"""Models of any number of nodes and of bytes, for how the TFLite emitter's time grows."""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.model import Model

CHANNELS = 8
WIDTH = 1024


def of_nodes(count: int) -> Model:
    """A convolutional net with a branch in each block: Conv, Relu, Conv, Add, Clip, Mul."""
    rng = np.random.default_rng(0)
    shape = (1, CHANNELS, 8, 8)
    values: list[onnx_ir.Value] = []
    nodes: list[onnx_ir.Node] = []

    def constant(name: str, array: np.ndarray) -> onnx_ir.Value:
        values.append(_initializer(name, array))
        return values[-1]

    def add(op: str, *inputs: onnx_ir.Value) -> onnx_ir.Value:
        number = len(nodes)
        node = onnx_ir.node(op, list(inputs), {"pads": [1] * 4} if op == "Conv" else {})
        node.name, node.outputs[0].name = f"n{number}", f"v{number}"
        nodes.append(node)
        return node.outputs[0]

    low, high = (constant(name, np.asarray(end)) for name, end in (("low", 0), ("high", 6)))
    source = x = _value("x", shape)
    while len(nodes) < count:
        number = len(nodes)
        weights = [
            constant(f"w{number}_{i}", rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 9)
            for i in range(2)
        ]
        y = add("Conv", add("Relu", add("Conv", x, weights[0])), weights[1])
        y = add("Clip", add("Add", x, y), low, high)
        x = add("Mul", y, constant(f"s{number}", rng.standard_normal((1, CHANNELS, 1, 1))))
    return _model(nodes, source, x, shape, values)


def of_bytes(size: int) -> Model:
    """Matrices of 4 MiB one after the other, ``size`` bytes in all."""
    count = max(size // (WIDTH * WIDTH * 4), 1)
    rng = np.random.default_rng(0)
    source = x = _value("x", (1, WIDTH))
    nodes, values = [], []
    for number in range(count):
        values.append(_initializer(f"w{number}", rng.random((WIDTH, WIDTH), np.float32) / WIDTH))
        nodes.append(onnx_ir.node("MatMul", [x, values[-1]], name=f"n{number}"))
        x = nodes[-1].outputs[0]
        x.name = f"v{number}"
    return _model(nodes, source, x, (1, WIDTH), values)


def _value(name: str, shape: tuple[int, ...]) -> onnx_ir.Value:
    return onnx_ir.Value(
        name=name, shape=onnx_ir.Shape(shape), type=onnx_ir.TensorType(onnx_ir.DataType.FLOAT)
    )


def _initializer(name: str, array: np.ndarray) -> onnx_ir.Value:
    tensor = onnx_ir.Tensor(np.asarray(array, np.float32), name=name)
    value = _value(name, tuple(tensor.numpy().shape))
    value.const_value = tensor
    return value


def _model(
    nodes: list[onnx_ir.Node],
    source: onnx_ir.Value,
    result: onnx_ir.Value,
    shape: tuple[int, ...],
    values: list[onnx_ir.Value],
) -> Model:
    result.shape, result.type = onnx_ir.Shape(shape), source.type
    graph = onnx_ir.Graph(
        [source], [result], nodes=nodes, initializers=values, opset_imports={"": 20}, name="made"
    )
    return Model.wrap(onnx_ir.Model(graph, ir_version=10))
