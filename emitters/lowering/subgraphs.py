"""Readies graphs within the graph for shape inference and for lowering.

1. ONNX's inference doesn't see the constants of outer graphs from inside one, so small ones, which
   hold axes, paddings and shapes, are had again in there.
2. An If whose condition is constant leaves the nodes of its one graph.
3. Dimensions that nothing names get a name, the same where they are known to be the same.
"""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import all_nodes, constant_tensor, is_op

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
    return graph.initializers.get(value.name or "") is not value


def _again(value: onnx_ir.Value, graph: onnx_ir.Graph, model: onnx_ir.Model) -> onnx_ir.Value:
    taken = {name for each in model.graphs() for name in each.initializers}
    name, number = f"{value.name}_inside", 0
    while name in taken:
        number += 1
        name = f"{value.name}_inside{number}"
    assert value.const_value is not None
    again = onnx_ir.Value(
        name=name,
        shape=onnx_ir.Shape(value.const_value.numpy().shape),
        type=onnx_ir.TensorType(value.const_value.dtype),
        const_value=value.const_value,
    )
    again.meta.update(value.meta)
    graph.register_initializer(again)
    return again


def take_known_branches(model: onnx_ir.Model) -> bool:
    """Puts the nodes of the one graph of an If whose condition is constant in its place.

    Returns:
        Whether there was such an If.
    """
    found = False
    for node in list(all_nodes(model)):
        condition = constant_tensor(node.inputs[0]) if is_op(node, "If") else None
        if condition is not None and isinstance(node.graph, onnx_ir.Graph):
            name = "then_branch" if condition.numpy().item() else "else_branch"
            _take(node, node.attributes[name].as_graph(), node.graph, model)
            found = True
    return found


def _take(
    node: onnx_ir.Node, branch: onnx_ir.Graph, graph: onnx_ir.Graph, model: onnx_ir.Model
) -> None:
    outputs, moved, stored = list(branch.outputs), list(branch), list(branch.initializers.values())
    branch.outputs.clear()
    branch.initializers.clear()
    branch.remove(moved)
    _rename(stored + [value for each in moved for value in each.outputs], model)
    for value in stored:
        graph.register_initializer(value)
    graph.insert_before(node, moved)
    for old, value in zip(node.outputs, outputs, strict=True):
        same = onnx_ir.node("Identity", [value], name=f"{node.name}_{old.name}")
        made = same.outputs[0]
        made.type = value.type or old.type
        made.shape = value.shape if value.shape is not None else old.shape
        graph.insert_before(node, same)
        name, old.name = old.name, None
        old.replace_all_uses_with(made, replace_graph_outputs=True)
        made.name = name
    graph.remove(node, safe=True)


def _rename(values: list[onnx_ir.Value], model: onnx_ir.Model) -> None:
    """Gives values names that no graph has: siblings may have had the same."""
    taken: set[str | None] = set()
    for graph in model.graphs():
        taken.update(value.name for value in graph.inputs)
        taken.update(graph.initializers)
        taken.update(value.name for node in graph for value in node.outputs)
    for value in values:
        name, number = value.name, 0
        while name and name in taken:
            number += 1
            name = f"{value.name}_{number}"
        taken.add(name)
        value.name = name
