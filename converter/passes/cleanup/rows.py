"""Makes a Concat of rows that are written over: of those that stay, and those that come.

    Given     ScatterND(x, rows, u)                     rows = [[s], [s + 1], ... [e - 1]]
    Result    Concat<axis=0>(x[:s], u, x[e:])

It is u where that is all rows, and x where u is what stood there: x[s:e]. An exporter
writes ``x[:, :, s:e] = u`` like this, with that axis in front, and computes the rows of x's size.
Where u or what takes the result is a Transpose too, the axis stays where it was:

    Given     Transpose<q>(ScatterND(Transpose<p>(x), rows, u))
    Result    Transpose<q>(Transpose<p>(Concat<axis=p[0]>(x[:s], Transpose<back>(u), x[e:])))

and :mod:`.merge` makes one or none of the Transposes in a row. How many rows x has is known.
"""

from __future__ import annotations

import numpy as np
import onnx_ir
from onnx_ir.passes import InPlacePass, PassResult

from converter.ir.edit import (
    all_nodes,
    attribute_int,
    attribute_ints,
    bypass,
    constant_tensor,
    integers,
    is_op,
    replace,
    static_shape,
)
from converter.ir.facts import RESHAPES


class JoinRows(InPlacePass):
    """Makes the module's results of what is given there."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Goes over all nodes once."""
        modified = False
        for node in all_nodes(model):
            if is_op(node, "ScatterND"):
                modified |= _join(node)
        return PassResult(model, modified)


def _join(node: onnx_ir.Node) -> bool:
    data, indices, updates = node.inputs
    shape, rows = static_shape(data), _rows(indices)
    if data is None or updates is None or not shape or not rows or _adds(node):
        return False
    size = shape[0]
    if not isinstance(size, int) or rows[0] < 0 or rows[-1] >= size:
        return False
    x, perm = _turned(data, len(shape))
    if _was_there(updates, x, perm, range(size), rows):
        return _become(node, data)
    if len(rows) == size:
        return _become(node, updates)
    around = [updates.producer(), *(use.node for use in node.outputs[0].uses())]
    if not any(map(_order, around)):  # none that a Transpose of the result goes into
        x, perm = data, list(range(len(shape)))
    _write(node, x, perm, rows, size)
    return True


def _become(node: onnx_ir.Node, value: onnx_ir.Value) -> bool:
    if not bypass(node, value):
        replace(node, onnx_ir.node("Identity", [value]))
    return True


def _write(node: onnx_ir.Node, x: onnx_ir.Value, perm: list[int], rows: range, size: int) -> None:
    """The Concat along the axis of ``x`` that ``perm`` has in front, and then the Transpose."""
    new, axis, updates = _Before(node, x, perm[0]), perm[0], node.inputs[2]
    turned = perm != sorted(perm)
    if turned:
        back = {"perm": [perm.index(place) for place in range(len(perm))]}
        updates = new.value(onnx_ir.node("Transpose", [updates], back), len(rows))
    kept = [new.part(0, rows.start), updates, new.part(rows.stop, size)]
    joined = onnx_ir.node("Concat", [part for part in kept if part is not None], {"axis": axis})
    if turned:
        joined = onnx_ir.node("Transpose", [new.value(joined, size)], {"perm": perm})
    replace(node, joined)


class _Before:
    """Puts nodes before another one that give values like ``x`` but for the size of an axis."""

    def __init__(self, node: onnx_ir.Node, x: onnx_ir.Value, axis: int) -> None:
        self._node, self._x, self._axis = node, x, axis

    def value(self, new: onnx_ir.Node, size: int) -> onnx_ir.Value:
        """What ``new`` gives, of that size."""
        made, graph = new.outputs[0], self._node.graph
        assert graph is not None
        made.type = self._x.type
        if self._x.shape is not None:
            made.shape = self._x.shape.copy()
            made.shape[self._axis] = size
        graph.insert_before(self._node, new)
        return made

    def part(self, start: int, stop: int) -> onnx_ir.Value | None:
        """``x`` from ``start`` to ``stop`` on the axis, where that is anything."""
        if start == stop:
            return None
        inputs = [self._x, *map(self._constant, (start, stop, self._axis))]
        return self.value(onnx_ir.node("Slice", inputs), stop - start)

    def _constant(self, number: int) -> onnx_ir.Value:
        made, graph = onnx_ir.node("Constant", [], {"value_ints": [number]}), self._node.graph
        assert graph is not None
        graph.insert_before(self._node, made)
        return made.outputs[0]


def _adds(node: onnx_ir.Node) -> bool:
    """Whether what is written meets what is there: the reduction isn't none."""
    attribute = node.attributes.get("reduction")
    return attribute is not None and (attribute.is_ref() or attribute.as_string() != "none")


def _order(node: onnx_ir.Node | None) -> list[int] | None:
    """The order of axes that a Transpose names."""
    return attribute_ints(node, "perm") if node is not None and is_op(node, "Transpose") else None


def _turned(value: onnx_ir.Value, rank: int) -> tuple[onnx_ir.Value, list[int]]:
    """What a value is Transposes of, and the order of axes that they make together."""
    perm, node = list(range(rank)), value.producer()
    while node is not None and (inner := _order(node)) and node.inputs[0] is not None:
        perm, value = [inner[axis] for axis in perm], node.inputs[0]
        node = value.producer()
    return value, perm


def _was_there(
    updates: onnx_ir.Value, x: onnx_ir.Value, perm: list[int], all_rows: range, rows: range
) -> bool:
    """Whether ``updates`` are these rows of Transpose<perm>(x) already."""
    piece, outer = _turned(updates, len(perm))
    node = piece.producer()
    cut = _cut(node) if node is not None and is_op(node, "Slice") else None
    if node is None or cut is None or node.inputs[0] is None:
        return False
    source, inner = _turned(node.inputs[0], len(perm))
    together = [inner[axis] for axis in outer]
    return source is x and together == perm and cut[0] == outer[0] and all_rows[cut[1]] == rows


# -- the rows ----------------------------------------------------------------------------


def _rows(indices: onnx_ir.Value | None) -> range | None:
    """The rows that follow each other in indices of shape [rows, 1]; None where they don't."""
    shape = static_shape(indices)
    return _run(indices) if shape and len(shape) == 2 and shape[1] == 1 else None


def _run(value: onnx_ir.Value | None, depth: int = 8) -> range | None:
    """Numbers that follow each other: constant ones, or those of a size, as exporters have them."""
    tensor, node = constant_tensor(value), value.producer() if value is not None else None
    if tensor is not None and tensor.size:
        found = tensor.numpy().reshape(-1)
        run = range(int(found[0]), int(found[0]) + found.size)
        return run if np.array_equal(found, np.array(run)) else None
    if tensor is not None or node is None or not node.inputs or not depth:
        return None
    if is_op(node, "Range"):
        first, limit, step = map(_number, node.inputs)
        return range(limit) if first == 0 and limit is not None and step == 1 else None
    if is_op(node, *RESHAPES):
        return _run(node.inputs[0], depth - 1)
    cut = _cut(node) if is_op(node, "Slice") else None
    if cut is None or len(static_shape(node.inputs[0]) or ()) != 1:
        return None
    whole = _run(node.inputs[0], depth - 1)
    return whole[cut[1]] if whole is not None else None


def _number(value: onnx_ir.Value | None) -> int | None:
    """A constant, or what a Gather takes of a Shape that is known."""
    found, node = integers(value), value.producer() if value is not None else None
    if found is not None or node is None or not is_op(node, "Gather"):
        return found[0] if found is not None and len(found) == 1 else None
    sizes = node.inputs[0].producer() if node.inputs[0] is not None else None
    if sizes is None or not is_op(sizes, "Shape") or attribute_int(sizes, "start", 0) != 0:
        return None
    shape, place = static_shape(sizes.inputs[0]), integers(node.inputs[1])
    if shape is None or place is None or len(place) != 1 or "end" in sizes.attributes:
        return None
    size = shape[place[0]] if -len(shape) <= place[0] < len(shape) else None
    return size if isinstance(size, int) else None


def _cut(node: onnx_ir.Node) -> tuple[int, slice] | None:
    """The axis of a Slice along one by 1, and from where to where."""
    shape, numbers = static_shape(node.inputs[0]), [_number(value) for value in node.inputs[1:]]
    if not shape or len(numbers) < 3 or None in numbers:
        return None
    start, stop, axis, step = [*numbers, 1][:4]
    assert axis is not None
    return (axis % len(shape), slice(start, stop)) if step == 1 else None
