"""Weights that stay compressed in the package, recognized in the graph before it is lowered.

The model holds them in standard operators; each chain becomes one node of :data:`DOMAIN` here, so
that nothing between constants is computed away:

    DequantizeLinear(q, scale) -> Reshape -> [Transpose]                  Blocks(q', scale')
    GatherElements(tables, [Cast] indices, axis=1) -> Reshape -> [Transpose]
                                                                          Lookup(indices', tables')

``scale'`` and ``tables'`` have the weight's rank: a size of theirs divides the weight's, and each
of their numbers (tables) is for a block of it, as ``constexpr_blockwise_shift_scale`` and
``constexpr_lut_to_dense`` of iOS 18 have them. Both are functions of the model (:data:`FUNCTIONS`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, attribute_int, constant_tensor, is_op
from converter.ir.facts import RECURRENT

Array = np.ndarray[Any, Any]

DOMAIN = "modelyard.coreml"

_REPEATED = """Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",
    nearest_mode = "floor">"""

FUNCTIONS = (
    f"""<domain: "{DOMAIN}"> Blocks (stored, table) => (y) {{
        sizes = Shape (stored) numbers = Cast <to = 1> (table)
        scales = {_REPEATED} (numbers, "", "", sizes)
        whole = Cast <to = 1> (stored) product = Mul (whole, scales)
        y = CastLike (product, table) }}""",
    f"""<domain: "{DOMAIN}"> Lookup (stored, table) => (y) {{
        sizes = Shape (stored) flat = Constant <value_ints = [-1]> ()
        values = Reshape (table, flat) index = Cast <to = 6> (stored) each = Reshape (index, flat)
        found = GatherElements (values, each) y = Reshape (found, sizes) }}""",
    f"""<domain: "{DOMAIN}"> BlockLookup (stored, table) => (y) {{
        sizes = Shape (stored) blocks = Shape <end = -1> (table)
        zero = Constant <value_int = 0> () count = Size (table)
        last = Shape <start = -1> (table) entries = Squeeze (last)
        places = Range (zero, count, entries) placed = Reshape (places, blocks)
        narrow = Cast <to = 6> (placed) first = {_REPEATED} (narrow, "", "", sizes)
        index = Cast <to = 6> (stored) place = Add (first, index)
        flat = Constant <value_ints = [-1]> () values = Reshape (table, flat)
        each = Reshape (place, flat) found = GatherElements (values, each)
        y = Reshape (found, sizes) }}""",
)
"""What they are in ONNX: a scale for each number; the entry of an index in the table, or in its
block's. ONNX Runtime's GatherElements takes a ninth of its Gather's time for single numbers."""


def pack(node: onnx_ir.Node, target: int) -> bool:
    """Rewrites a chain that begins with a node, where a target has constants for it: iOS 16 and 17
    have none with numbers for blocks, and such chains are computed there."""
    blocks = is_op(node, "DequantizeLinear")
    moves = _moves(node) if blocks or is_op(node, "GatherElements") else []
    made = (_blocks if blocks else _lookup)(node, moves, target) if moves else None
    if made is not None:
        _become(moves[-1], blocks, made)
    return made is not None


def _blocks(node: onnx_ir.Node, moves: list[onnx_ir.Node], target: int) -> list[Array] | None:
    stored, scale = (_array(value) for value in node.inputs[:2])
    if stored is None or scale is None or stored.dtype.itemsize != 1 or not stored.ndim:
        return None
    for value in node.inputs[2:]:
        zero = _array(value)
        if value is not None and (zero is None or np.any(zero)):
            return None
    if scale.size > 1:
        axis = (attribute_int(node, "axis", 1) or 0) % stored.ndim
        scale = scale.reshape([-1 if i == axis else 1 for i in range(stored.ndim)])
    scales = one_a_block(_moved(np.broadcast_to(scale, stored.shape), moves))
    stored = _moved(stored, moves)
    sizes = [(size, of) for size, of in zip(scales.shape, stored.shape, strict=True) if size > 1]
    if is_recurrent(
        moves[-1].outputs[0]
    ):  # which takes the weights of one direction after the other
        sizes = [each for each in sizes if each != (scales.shape[0], stored.shape[0])]
    whole = not sizes or (len(sizes) == 1 and sizes[0][0] == sizes[0][1])
    return [stored, scales] if whole or target not in (16, 17) else None


def _lookup(node: onnx_ir.Node, moves: list[onnx_ir.Node], target: int) -> list[Array] | None:
    tables, indices = _array(node.inputs[0]), _indices(node.inputs[1])
    axis = attribute_int(node, "axis", 0)
    if tables is None or indices is None or axis != 1 or tables.ndim != 2:
        return None
    entries, alike = tables.shape[1], indices.shape[0] == tables.shape[0]
    within = indices.size and int(indices.min()) >= 0 and int(indices.max()) < entries <= 256
    if not within or not alike or tables.dtype.kind != "f":
        return None
    each = np.arange(len(tables), dtype=np.min_scalar_type(len(tables)))
    numbers = np.broadcast_to(each[:, None], indices.shape)
    which = one_a_block(_moved(numbers, moves))
    if which.size > 1 and target in (16, 17):
        return None
    return [_moved(indices.astype(np.uint8, copy=False), moves), tables[which]]


def take_part(node: onnx_ir.Node) -> bool:
    """Has a part of what is stored, or that in another order, stored in a node's place."""
    maker = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    move = _move_of(node) if maker is not None and maker.domain == DOMAIN else None
    if maker is None or move is None:
        return False
    stored, table = (_array(value) for value in maker.inputs)
    assert stored is not None and table is not None
    _become(node, maker.op_type == "Blocks", [*moved(stored, table, move)])
    return True


def moved(stored: Array, table: Array, move: Callable[[Array], Array]) -> tuple[Array, Array]:
    """What is stored of a weight, moved, and the scale or table of each block of that.

    Args:
        stored: Of the weight's shape.
        table: A scale or table for each block: [blocks, blocks, ...].
        move: What becomes of an array of the weight's shape.
    """
    numbers = np.arange(math.prod(table.shape[: stored.ndim])).reshape(table.shape[: stored.ndim])
    for axis, size in enumerate(stored.shape):
        numbers = numbers.repeat(size // numbers.shape[axis], axis)
    which = one_a_block(move(numbers))
    return np.ascontiguousarray(move(stored)), table.reshape(-1, *table.shape[stored.ndim :])[which]


def _move_of(node: onnx_ir.Node) -> Callable[[Array], Array] | None:
    """What a node that takes a part, or puts axes in another order, does; None of others."""
    settings = [_array(value) for value in node.inputs[1:]]
    known = [array.ravel().tolist() for array in settings if array is not None]
    if len(known) < len(settings):
        return None
    if is_op(node, "Slice") and len(known) == 3:
        parts = {axis: slice(*ends) for *ends, axis in zip(*known, strict=True)}
        return lambda x: x[tuple(parts.get(axis, slice(None)) for axis in range(x.ndim))]
    if is_op(node, "Squeeze") and known:
        return lambda x: x.squeeze(tuple(known[0]))
    perm = node.attributes.get("perm")
    return None if perm is None else lambda x: x.transpose(perm.as_ints())


def is_recurrent(value: onnx_ir.Value) -> bool:
    """Whether a value is of recurrent operators alone."""
    return all(is_op(use.node, *RECURRENT) for use in value.uses())


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
    if not isinstance(node.graph, onnx_ir.Graph):  # of a function
        return found
    for kind in ("Reshape", "Transpose"):
        output = (found[-1] if found else node).outputs[0]
        uses = list(output.uses())
        if len(uses) != 1 or output.is_graph_output() or not is_op(uses[0].node, kind):
            break
        moved = uses[0].node.outputs[0]
        if moved.shape is None or not moved.shape.is_static() or moved.is_graph_output():
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


def one_a_block(whole: Array) -> Array:
    """One number for each block of an array, of the largest blocks that hold equal numbers."""
    for axis in range(whole.ndim):
        size = whole.shape[axis]
        if size > 1:
            along = whole.swapaxes(0, axis)
            changes = (along[1:] != along[:-1]).any(axis=tuple(range(1, whole.ndim)))
            block = math.gcd(size, *(int(place) + 1 for place in np.flatnonzero(changes)))
            whole = along[::block].swapaxes(0, axis)
    return whole


def _become(last: onnx_ir.Node, blocks: bool, arrays: list[Array]) -> None:
    """Puts a node of constants in the place of the last of a chain."""
    output, graph = last.outputs[0], last.graph
    stored, table = arrays
    tables = table.size // table.shape[-1] if table.ndim > stored.ndim else 0
    kind = "Blocks" if blocks else "Lookup" if tables == 1 else "BlockLookup"
    assert isinstance(graph, onnx_ir.Graph)
    inputs = []
    for part, array in zip(("stored", "table"), arrays, strict=True):
        inputs.append(add_constant(graph, f"{output.name}_{part}", array))
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
