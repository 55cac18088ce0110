"""Elements between a product and its Q or DQ, moved as integers.

    DQ(q), Transpose, Conv            Transpose(q), DQ, Conv
    Conv, Relu, Reshape, Q            Conv, Relu, Q, Reshape

ONNX Runtime's optimizer puts an int8 kernel in the place of a product that is directly between DQ
and Q. With one scale for a tensor it is one whether elements are moved before they are rounded or
after. :mod:`.unsigned` goes on with what this leaves.
"""

from __future__ import annotations

import onnx_ir

from converter.ir.edit import constant, is_constant, is_op
from converter.ir.facts import RESHAPES

Value = onnx_ir.Value

PRODUCTS = ("Conv", "Gemm", "MatMul")
"""Which have int8 kernels, of uint8 on x86."""

ONTO = RESHAPES | {"Slice", "Transpose"}
"""What moves elements of its first input, by constants."""

ENDS = ("QuantizeLinear", "DequantizeLinear")


def onto(node: onnx_ir.Node) -> bool:
    """Has what moves elements between a product and a Q or DQ move the integers.

    Args:
        node: A QuantizeLinear, which goes up, or a DequantizeLinear, which goes down, as far as it
            can.

    Returns:
        Whether anything changed.
    """
    if node.graph is None or not is_op(node, *ENDS) or not _is_whole(node):
        return False  # the first: it was moved with another
    return (_up if is_op(node, "QuantizeLinear") else _down)(node)


def _is_whole(node: onnx_ir.Node) -> bool:
    """Whether it has one constant scale, for all of a tensor that isn't constant."""
    scale = constant(node.inputs[1])
    rest = all(is_constant(value) for value in node.inputs[2:] if value is not None)
    return scale is not None and scale.size == 1 and rest and not is_constant(node.inputs[0])


def _moves(node: onnx_ir.Node | None) -> bool:
    """Whether elements of its first input are moved, by constants."""
    if node is None or not is_op(node, *ONTO) or node.outputs[0].is_graph_output():
        return False
    return all(value is None or is_constant(value) for value in node.inputs[1:])


def _up(node: onnx_ir.Node) -> bool:
    real = node.inputs[0]
    move = real.producer() if real is not None else None
    if real is None or move is None or not _moves(move) or len(list(real.uses())) != 1:
        return False
    source, graph = move.inputs[0], node.graph
    if source is None or graph is None or graph is not move.graph or not is_made(source):
        return False
    made = onnx_ir.node(
        "QuantizeLinear", [source, *node.inputs[1:]], node.attributes, name=node.name
    )
    integers, last = made.outputs[0], node.outputs[0]
    integers.name, integers.type, integers.shape = f"{source.name}_int", last.type, source.shape
    graph.insert_before(move, made)
    move.replace_input_with(0, integers)
    real.type, name = last.type, last.name
    last.replace_all_uses_with(real, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    real.name = name
    _up(made)
    return True


def is_made(value: Value) -> bool:
    """Whether a product gives a value, moved and cut off at most, and to nobody else."""
    while not value.is_graph_output() and len(list(value.uses())) == 1:
        node = value.producer()
        if node is None or is_op(node, *PRODUCTS):
            return node is not None
        if not (is_op(node, "Relu", "Clip") or _moves(node)) or node.inputs[0] is None:
            return False
        value = node.inputs[0]
    return False


def _down(node: onnx_ir.Node) -> bool:
    stored, real = node.inputs[0], node.outputs[0]
    found = [use.node for use in real.uses() if use.idx == 0 and _moves(use.node)]
    moves = [move for move in found if _is_taken(move.outputs[0])]
    for move in moves:
        assert stored is not None and move.graph is not None
        moved = move.outputs[0]
        made = onnx_ir.node("DequantizeLinear", [moved, *node.inputs[1:]], node.attributes)
        made.name, after = f"{move.name}_DequantizeLinear", made.outputs[0]
        move.replace_input_with(0, stored)
        moved.replace_all_uses_with(after)
        made.replace_input_with(0, moved)
        after.name, after.type, after.shape = moved.name, moved.type, moved.shape
        moved.name, moved.type = f"{moved.name}_int", stored.type
        move.graph.insert_after(move, made)
        _down(made)
    if moves and node.graph is not None and not list(real.uses()):
        node.graph.remove(node, safe=True)
    return bool(moves)


def _is_taken(value: Value) -> bool:
    """Whether a product takes a value, moved at most."""
    uses = [use for use in value.uses() if use.idx == 0]
    return any(
        is_op(use.node, *PRODUCTS) or (_moves(use.node) and _is_taken(use.node.outputs[0]))
        for use in uses
    )
