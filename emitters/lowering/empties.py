"""Takes out tensors without elements, for targets that have none.

1. Concat of parts, some of which have no elements along its axis: the others alone.
2. Split, some of whose parts have no elements and aren't used: the others alone.
3. What a branch of an If gives without elements: a constant, whatever computes nothing.

A rotary embedding of all of a head's elements, say, splits off a rest of 0 and joins it again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, all_nodes, constant, is_op, static_shape


def drop_empty(model: onnx_ir.Model) -> bool:
    """Rewrites the model in place, subgraphs too; gives whether anything changed."""
    changed = False
    for node in list(all_nodes(model)):
        if is_op(node, "Concat"):
            changed |= _join_the_rest(node)
    for node in list(all_nodes(model)):
        if is_op(node, "Split"):
            changed |= _split_the_rest(node)
        if is_op(node, "If"):
            for branch in ("then_branch", "else_branch"):
                changed |= _give_constants(node.attributes[branch].as_graph())
    return changed


def _give_constants(branch: onnx_ir.Graph) -> bool:
    """Has constants stand for a branch's outputs that have no elements."""
    changed = False
    for place, output in enumerate(branch.outputs):
        shape, maker = static_shape(output), output.producer()
        sizes = [dim for dim in shape or () if isinstance(dim, int)]
        if maker is None or is_op(maker, "Constant") or shape is None or 0 not in sizes:
            continue
        if len(sizes) < len(shape) or output.dtype is None:
            continue
        nothing = onnx_ir.tensor(np.zeros(sizes, output.dtype.numpy()))
        new = onnx_ir.node("Constant", [], {"value": nothing})
        new.outputs[0].type, new.outputs[0].shape = output.type, output.shape
        output.name, new.outputs[0].name = None, output.name
        branch.append(new)
        branch.outputs[place] = new.outputs[0]
        _remove_unused(output)
        changed = True
    return changed


def _join_the_rest(node: onnx_ir.Node) -> bool:
    axis = node.attributes["axis"].as_int()
    full = [value for value in node.inputs if value is None or _size(value, axis) != 0]
    if not full or len(full) == len(node.inputs):
        return False
    gone = [value for value in node.inputs if value not in full]
    if len(full) == 1:
        new = onnx_ir.node("Identity", full, name=node.name)
    else:
        new = onnx_ir.node("Concat", full, {"axis": axis}, name=node.name)
    _replace(node, new, node.outputs)
    for value in gone:
        _remove_unused(value)
    return True


def _remove_unused(value: onnx_ir.Value | None) -> None:
    """Removes what makes a value that nothing uses any more."""
    maker = value.producer() if value is not None else None
    graph = maker.graph if maker is not None else None
    if maker is None or not isinstance(graph, onnx_ir.Graph):
        return
    if any(output.uses() or output.is_graph_output() for output in maker.outputs):
        return
    inputs = list(maker.inputs)
    graph.remove(maker, safe=True)
    for each in inputs:
        _remove_unused(each)


def _split_the_rest(node: onnx_ir.Node) -> bool:
    """A part's size is its output's."""
    attribute = node.attributes.get("axis")
    axis = attribute.as_int() if attribute is not None else 0
    sizes = [_size(output, axis) for output in node.outputs]
    unused = [not (out.uses() or out.is_graph_output()) for out in node.outputs]
    gone = [size == 0 and alone for size, alone in zip(sizes, unused, strict=True)]
    if not any(gone) or any(not isinstance(size, int) for size in sizes):
        return False
    kept = [output for output, dropped in zip(node.outputs, gone, strict=True) if not dropped]
    given = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    graph = node.graph
    if not kept or given is None or not isinstance(graph, onnx_ir.Graph):
        return False
    if len(kept) == 1:
        new = onnx_ir.node("Identity", node.inputs[:1], name=node.name)
    else:
        rest = np.asarray([size for size, out in zip(given, gone, strict=True) if not out])
        again = add_constant(graph, f"{node.name}_sizes", rest.astype(np.int64))
        inputs = [node.inputs[0], again]
        new = onnx_ir.node("Split", inputs, {"axis": axis}, num_outputs=len(kept), name=node.name)
    _replace(node, new, kept)
    return True


def _size(value: onnx_ir.Value, axis: int) -> int | None:
    if value.shape is None or not -len(value.shape) <= axis < len(value.shape):
        return None
    dim = value.shape[axis]
    return dim if isinstance(dim, int) else None


def _replace(node: onnx_ir.Node, new: onnx_ir.Node, outputs: Sequence[onnx_ir.Value]) -> None:
    """A node in another's place; ``outputs`` are those of the old one that stay."""
    graph = node.graph
    assert isinstance(graph, onnx_ir.Graph)
    graph.insert_before(node, new)
    for before, after in zip(outputs, new.outputs, strict=True):
        name, before.name = before.name, None
        after.type, after.shape = before.type, before.shape
        before.replace_all_uses_with(after, replace_graph_outputs=True)
        after.name = name
    graph.remove(node, safe=True)
