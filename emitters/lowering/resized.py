"""Finds which free sizes of a Resize's output are another tensor's, which inference doesn't.

Given:   s = Concat(Shape(x)[:2], Shape(z)[2:])          x: [N, 64, H, W]  z: [N, 32, P, Q]
         y = Resize(x, , , s)                            y: [a, 64, b, c]
Result:  y: [N, 64, P, Q], and N, P and Q for a, b and c wherever those are
"""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import all_nodes, constant, is_op
from converter.ir.equal_sizes import Size, computed

Entry = int | str | None


def name_resized(model: onnx_ir.Model) -> None:
    """Changes the shapes of values in place; the names of the graph's inputs stay."""
    own = {
        dim.value
        for value in model.graph.inputs
        for dim in value.shape or ()
        if not isinstance(dim, int)
    }
    for node in all_nodes(model):
        x, output = node.inputs[0] if node.inputs else None, node.outputs[0]
        if not is_op(node, "Resize", "Upsample") or x is None:
            continue
        if x.shape is None or output.shape is None or output.is_graph_output():
            continue
        for dim, name in zip(list(output.shape), _asked(node, list(x.shape)), strict=False):
            if isinstance(dim, int) or not isinstance(name, str) or dim.value in (None, name):
                continue
            if dim.value not in own:
                _rename(model, dim.value or "", name)


def _rename(model: onnx_ir.Model, old: str, new: str) -> None:
    """One dimension's name, everywhere but in the graph's outputs."""
    for node in all_nodes(model):
        for value in node.outputs:
            if value.shape is None or value.is_graph_output():
                continue
            if any(dim == old for dim in value.shape):
                value.shape = onnx_ir.Shape([new if dim == old else dim for dim in value.shape])


def _asked(node: onnx_ir.Node, before: list[int | onnx_ir.SymbolicDim]) -> list[Entry]:
    """The sizes that follow from the node's inputs; None where one doesn't."""
    own: list[Entry] = [dim if isinstance(dim, int) else dim.value for dim in before]
    attribute = node.attributes.get("axes")
    rank = len(before)
    axes = [axis % rank for axis in attribute.as_ints()] if attribute is not None else range(rank)
    policy = node.attributes.get("keep_aspect_ratio_policy")
    sizes = node.inputs[3] if len(node.inputs) > 3 else None
    place = 1 if node.op_type == "Upsample" else 2
    scales = constant(node.inputs[place]) if len(node.inputs) > place else None
    found = list(own)
    if sizes is not None:
        asked = entries(sizes)
        if policy is not None and policy.as_string() != "stretch":
            asked = None
        for axis in axes:
            found[axis] = None
        for axis, entry in zip(axes, asked or [], strict=False):
            found[axis] = entry
    elif scales is not None and scales.size:
        for axis, scale in zip(axes, scales.ravel(), strict=True):
            found[axis] = own[axis] if scale == 1.0 else None
    else:
        return [None] * rank
    return found


def entries(value: onnx_ir.Value | None) -> list[Entry] | None:
    """What a vector of sizes holds: numbers, and names of free dimensions; None where it isn't
    known how many."""
    sizes = computed(value)
    return None if sizes is None else [_entry(size) for size in sizes]


def _entry(size: Size | None) -> Entry:
    if size is None or len(size.symbols) > 1 or (size.symbols and size.number != 1):
        return None
    return size.symbols[0] if size.symbols else size.number
