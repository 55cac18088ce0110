"""cond and while_loop: their blocks become graphs, which see the values around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir

from parsers.coreml.operation import Named, Operation, type_of
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.registry import reads


@reads("cond")
def cond(reader: Reader, op: Operation) -> None:
    branches = {}
    for name, block in zip(("then_branch", "else_branch"), op.blocks, strict=True):
        inner = Reader(outer=reader)
        branches[name] = _graph(inner, [], _read(inner, block), f"{op.name}_{name}")
    inputs = [_scalar(reader, reader.value(op, "pred"))]
    outputs = reader.nodes_of("If", inputs, len(op.outputs), branches)
    reader.give(op, *_typed(op, outputs))


@reads("while_loop")
def while_loop(reader: Reader, op: Operation) -> None:
    """Loop: the condition is computed once before it, and again at the end of each round."""
    test, body = op.blocks
    given = reader.all(op, "loop_vars")
    first = _condition(reader, test, given)
    inner = Reader(outer=reader)
    iteration = _input(inner, "iteration", DataType.INT64)
    going_on = _input(inner, "going_on", DataType.BOOL)
    states = [_state(inner, item) for item in body.inputs]
    results = _read(inner, body, states)
    again = _condition(inner, test, results)
    graph = _graph(inner, [iteration, going_on, *states], [again, *results], f"{op.name}_body")
    inputs = [None, first, *given]
    outputs = reader.nodes_of("Loop", inputs, len(op.outputs), {"body": graph})
    reader.give(op, *_typed(op, outputs))


def _read(reader: Reader, block: Any, given: Sequence[onnx_ir.Value] = ()) -> list[onnx_ir.Value]:
    """A block's outputs; its nodes are added to the reader's."""
    for item, value in zip(block.inputs, given, strict=True):
        reader.bind(item.name, value)
    reader.read_block(reader, block)
    return [reader.named(str(name)) for name in block.outputs]


def _condition(reader: Reader, block: Any, given: Sequence[onnx_ir.Value]) -> onnx_ir.Value:
    """A loop's condition, among the reader's nodes; its names are seen nowhere else."""
    scope = Reader(outer=reader)
    scope.nodes, scope.initializers = reader.nodes, reader.initializers
    return _scalar(reader, _read(scope, block, given)[0])


def _scalar(reader: Reader, x: onnx_ir.Value) -> onnx_ir.Value:
    """A condition without axes: in a program it may be a vector of one."""
    if x.shape is not None and len(x.shape) == 0:
        return x
    return reader.node("Reshape", [x, reader.ints([])])


def _graph(
    inner: Reader,
    inputs: Sequence[onnx_ir.Value],
    outputs: Sequence[onnx_ir.Value],
    name: str,
) -> onnx_ir.Graph:
    """A graph of what was read; an output is a node's of this graph, and one only."""
    own = {id(output) for node in inner.nodes for output in node.outputs}
    distinct: list[onnx_ir.Value] = []
    for value in outputs:
        if id(value) in own and not any(value is other for other in distinct):
            distinct.append(value)
            continue
        copy = inner.node("Identity", [value])
        copy.shape = value.shape
        distinct.append(copy)
    return onnx_ir.Graph(
        inputs, distinct, nodes=inner.nodes, initializers=inner.initializers, name=name
    )


def _input(reader: Reader, name: str, dtype: DataType) -> onnx_ir.Value:
    return onnx_ir.Value(
        name=reader.names.free(name), shape=onnx_ir.Shape([]), type=onnx_ir.TensorType(dtype)
    )


def _state(reader: Reader, item: Any) -> onnx_ir.Value:
    """What a round begins with: of the type that the block's input has."""
    named = Named(item.name, type_of(item.type))
    value = onnx_ir.Value(name=reader.names.free(named.name))
    if named.type.dtype is not None:
        value.type = onnx_ir.TensorType(named.type.dtype)
    if named.type.shape is not None:
        value.shape = onnx_ir.Shape(list(named.type.shape))
    return value


def _typed(op: Operation, outputs: Sequence[onnx_ir.Value]) -> Sequence[onnx_ir.Value]:
    for declared, output in zip(op.outputs, outputs, strict=True):
        dtype = declared.type.dtype
        output.type = None if dtype is None else onnx_ir.TensorType(dtype)
    return outputs
