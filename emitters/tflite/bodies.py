"""Readies graphs within the graph for shape inference and for lowering.

1. ONNX's inference doesn't see the constants of outer graphs from inside one, so small ones, which
   hold axes, paddings and shapes, are had again in there.
2. Dimensions that nothing names get a name, the same where they are known to be the same.
"""

from __future__ import annotations

import onnx_ir

from converter.graph.edit import constant_tensor
from converter.graph.inference import infer

SMALL = 1024
"""Elements up to which an outer constant is had again."""


def bring_constants_in(model: onnx_ir.Model) -> None:
    """Gives each inner graph initializers of its own for small outer constants."""
    for graph in model.graphs():
        if graph is model.graph:
            continue
        own: dict[onnx_ir.Value, onnx_ir.Value] = {}
        for node in graph:
            for index, value in enumerate(node.inputs):
                if value is not None and _is_outer(value, graph):
                    if value not in own:
                        own[value] = _again(value, graph, model)
                    node.replace_input_with(index, own[value])


def _is_outer(value: onnx_ir.Value, graph: onnx_ir.Graph) -> bool:
    tensor = constant_tensor(value)
    if tensor is None or tensor.size > SMALL or not value.is_initializer():
        return False
    return value.name not in graph.initializers or graph.initializers[value.name] is not value


def _again(value: onnx_ir.Value, graph: onnx_ir.Graph, model: onnx_ir.Model) -> onnx_ir.Value:
    taken = {name for each in model.graphs() for name in each.initializers}
    name, number = f"{value.name}_inside", 0
    while name in taken:
        number += 1
        name = f"{value.name}_inside{number}"
    assert value.const_value is not None
    again = onnx_ir.Value(
        name=name,
        shape=onnx_ir.Shape(value.const_value.shape),
        type=onnx_ir.TensorType(value.const_value.dtype),
        const_value=value.const_value,
    )
    again.meta.update(value.meta)
    graph.register_initializer(again)
    return again


def name_unknown(model: onnx_ir.Model) -> None:
    """Names dimensions; shapes of values stay as they are otherwise."""
    for value, known in infer(model, made_up=True).items():
        own, named = value.shape, known.shape
        if own is None or named is None or len(own) != len(named):
            continue
        if any(not isinstance(dim, int) and dim.value is None for dim in own):
            pairs = zip(own, named, strict=True)
            value.shape = onnx_ir.Shape([_known_of(old, new) for old, new in pairs])


def _known_of(
    old: int | onnx_ir.SymbolicDim, new: int | onnx_ir.SymbolicDim
) -> int | onnx_ir.SymbolicDim:
    return new if not isinstance(old, int) and old.value is None else old
