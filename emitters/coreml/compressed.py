"""Weights that stay compressed in the package, recognized in the graph before it is lowered.

The model holds them in standard operators; each chain becomes one node of :data:`DOMAIN` here, so
that nothing between constants is computed away:

    DequantizeLinear(q, scale) -> Reshape -> [Transpose]                  Blocks(q', scale')
    GatherElements(tables, [Cast] indices, axis=1) -> Reshape -> [Transpose]
                                                                          Lookup(indices', tables')

``scale'`` and ``tables'`` have the weight's rank: a size of theirs divides the weight's, and each
of their numbers (tables) is for a block of it, as ``constexpr_blockwise_shift_scale`` and
``constexpr_lut_to_dense`` of iOS 18 have them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir

from converter.graph.edit import all_nodes, attribute_int, constant_tensor, is_op

Array = np.ndarray[Any, Any]

DOMAIN = "modelyard.coreml"


def recognize(model: onnx_ir.Model) -> None:
    """Rewrites the chains in place; what only they used is left to be swept."""
    for node in list(all_nodes(model)):
        if is_op(node, "DequantizeLinear"):
            _blocks(node)
        elif is_op(node, "GatherElements"):
            _lookup(node)
    if any(node.domain == DOMAIN for node in all_nodes(model)):
        model.opset_imports[DOMAIN] = 1


def _blocks(node: onnx_ir.Node) -> None:
    moves = _moves(node)
    stored, scale = (_array(value) for value in node.inputs[:2])
    zero = _array(node.inputs[2]) if len(node.inputs) > 2 else None
    if not moves or stored is None or scale is None or stored.dtype.itemsize != 1:
        return
    if zero is not None and np.any(zero):
        return
    if scale.size > 1:
        axis = (attribute_int(node, "axis", 1) or 0) % stored.ndim
        scale = scale.reshape([-1 if i == axis else 1 for i in range(stored.ndim)])
    whole = _moved(np.broadcast_to(scale, stored.shape), moves)
    _become(moves[-1], "Blocks", [_moved(stored, moves), _one_a_block(whole)])


def _lookup(node: onnx_ir.Node) -> None:
    moves = _moves(node)
    tables, indices = _array(node.inputs[0]), _indices(node.inputs[1])
    axis = attribute_int(node, "axis", 0)
    if not moves or tables is None or indices is None or axis != 1 or tables.ndim != 2:
        return
    if tables.shape[1] > 256 or indices.shape[0] != tables.shape[0] or int(indices.min()) < 0:
        return
    numbers = np.broadcast_to(np.arange(len(tables))[:, None], indices.shape)
    which = _one_a_block(_moved(numbers, moves))
    _become(moves[-1], "Lookup", [_moved(indices.astype(np.uint8), moves), tables[which]])


def _array(value: onnx_ir.Value | None) -> Array | None:
    tensor = constant_tensor(value)
    return None if tensor is None else np.asarray(tensor.numpy())


def _indices(value: onnx_ir.Value | None) -> Array | None:
    """Constant indices, or what they were cast from."""
    maker = value.producer() if value is not None else None
    return _array(maker.inputs[0] if maker is not None and is_op(maker, "Cast") else value)


def _moves(node: onnx_ir.Node) -> list[onnx_ir.Node]:
    """A Reshape behind a node, which nothing else uses, and a Transpose behind that."""
    found: list[onnx_ir.Node] = []
    for kind in ("Reshape", "Transpose"):
        output = (found[-1] if found else node).outputs[0]
        uses = list(output.uses())
        if len(uses) != 1 or output.is_graph_output() or not is_op(uses[0].node, kind):
            break
        shape = uses[0].node.outputs[0].shape
        if shape is None or not shape.is_static():
            break
        found.append(uses[0].node)
    return found


def _moved(array: Array, moves: list[onnx_ir.Node]) -> Array:
    for node in moves:
        if is_op(node, "Transpose"):
            perm = node.attributes.get("perm")
            array = array.transpose(perm.as_ints() if perm is not None else None)
        else:
            shape = node.outputs[0].shape
            assert shape is not None
            array = array.reshape(shape.numpy())
    return np.ascontiguousarray(array)


def _one_a_block(whole: Array) -> Array:
    """One number for each block of an array, of the largest blocks that hold equal numbers."""
    for axis in range(whole.ndim):
        size = whole.shape[axis]
        if size > 1:
            first = whole.take(range(size - 1), axis) != whole.take(range(1, size), axis)
            changes = first.any(axis=tuple(i for i in range(whole.ndim) if i != axis))
            block = math.gcd(size, *(int(place) + 1 for place in np.flatnonzero(changes)))
            whole = whole.take(range(0, size, block), axis)
    return whole


def _become(last: onnx_ir.Node, kind: str, arrays: list[Array]) -> None:
    """Puts a node of constants in the place of the last of a chain."""
    output, graph = last.outputs[0], last.graph
    assert isinstance(graph, onnx_ir.Graph)
    inputs = []
    for part, array in zip(("stored", "table"), arrays, strict=True):
        tensor = onnx_ir.Tensor(array, name=f"{output.name}_{part}")
        value = onnx_ir.Value(
            name=tensor.name,
            shape=onnx_ir.Shape(array.shape),
            type=onnx_ir.TensorType(tensor.dtype),
            const_value=tensor,
        )
        graph.register_initializer(value)
        inputs.append(value)
    made = onnx_ir.node(kind, inputs, domain=DOMAIN, name=last.name)
    new = made.outputs[0]
    graph.insert_before(last, made)
    new.name, new.type, new.shape = output.name, output.type, output.shape
    output.replace_all_uses_with(new)
    _sweep(last)


def _sweep(node: onnx_ir.Node) -> None:
    """Removes a node that nothing uses, and what only it used."""
    graph = node.graph
    sources = [value for value in node.inputs if value is not None]
    if graph is None or any(out.uses() or out.is_graph_output() for out in node.outputs):
        return
    graph.remove(node, safe=True)
    for value in sources:
        maker = value.producer()
        if maker is not None:
            _sweep(maker)
