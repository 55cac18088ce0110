"""Integers next to products, as ONNX Runtime has kernels for them.

    onto       DQ(q), Transpose, Conv            Transpose(q), DQ, Conv
               Conv, Relu, Reshape, Q            Conv, Relu, Q, Reshape
    unsigned   int8, moved between Q and DQ      uint8, with zero points that are 128 more

ONNX Runtime's optimizer puts an int8 kernel in the place of a product that is directly between DQ
and Q. On x86 it has that for uint8 alone: it makes uint8 of int8 itself where a DQ follows a Q, and
not where a Concat, a Slice, or the border of the graph is between them; such layers run in float32.

Both are exact: with one scale for a tensor, it is one whether elements are moved before they are
rounded or after; and q - z is the same number. Int8 at the border of the graph stays: a DQ and a Q,
which give q + 128, are put beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, constant, is_constant, is_op
from converter.ir.facts import RESHAPES

DataType = onnx_ir.DataType
Value = onnx_ir.Value

PRODUCTS = ("Conv", "Gemm", "MatMul")
"""Which have int8 kernels, of uint8 on x86."""

MIXED = (*PRODUCTS, "Add", "Mul")
"""Whose kernels want one type of all activations."""

_ONTO = RESHAPES | {"Slice", "Transpose"}
_CARRIES = _ONTO | {"Concat", "Expand", "Gather", "Identity", "MaxPool", "Pad", "Split", "Tile"}
_JOINS = ("Concat",)
_ENDS = ("QuantizeLinear", "DequantizeLinear")
_SHIFT = 128


def onto(node: onnx_ir.Node) -> bool:
    """Has what moves elements between a product and a Q or DQ move the integers.

    Args:
        node: A QuantizeLinear, which goes up, or a DequantizeLinear, which goes down, as far as it
            can.

    Returns:
        Whether anything changed.
    """
    if node.graph is None or not is_op(node, *_ENDS) or not _is_whole(node):
        return False  # the first: it was moved with another
    return (_up if is_op(node, "QuantizeLinear") else _down)(node)


def _is_whole(node: onnx_ir.Node) -> bool:
    """Whether it has one constant scale, for all of a tensor that isn't constant."""
    scale = constant(node.inputs[1])
    rest = all(is_constant(value) for value in node.inputs[2:] if value is not None)
    return scale is not None and scale.size == 1 and rest and not is_constant(node.inputs[0])


def _moves(node: onnx_ir.Node | None) -> bool:
    """Whether elements of its first input are moved, by constants."""
    if node is None or not is_op(node, *_ONTO) or node.outputs[0].is_graph_output():
        return False
    return all(value is None or is_constant(value) for value in node.inputs[1:])


def _up(node: onnx_ir.Node) -> bool:
    real = node.inputs[0]
    move = real.producer() if real is not None else None
    if real is None or move is None or not _moves(move) or len(list(real.uses())) != 1:
        return False
    source, graph = move.inputs[0], node.graph
    if source is None or graph is None or graph is not move.graph or not _is_made(source):
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


def _is_made(value: Value) -> bool:
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


# -- uint8 ---------------------------------------------------------------------------------


@dataclass
class Region:
    """Integers that are moved, from where they are rounded to where they are numbers again.

    Attributes:
        graph: That they are in.
        values: All of them.
        rounds, reads: The Q that give and the DQ that take them.
        pads: What pads them.
        whole: Whether nothing else gives or takes them.
    """

    graph: onnx_ir.Graph
    values: list[Value] = field(default_factory=list)
    rounds: list[onnx_ir.Node] = field(default_factory=list)
    reads: list[onnx_ir.Node] = field(default_factory=list)
    pads: set[onnx_ir.Node] = field(default_factory=set)
    whole: bool = True

    @classmethod
    def around(cls, value: Value, graph: onnx_ir.Graph) -> Region:
        """The region that a value is in."""
        found, waiting, seen = cls(graph), [value], {value}
        while waiting:
            value = waiting.pop()
            found.values.append(value)
            found.whole &= value.graph is graph
            for other in chain(found._before(value), found._behind(value)):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return found

    def _before(self, value: Value) -> Iterator[Value]:
        node = value.producer()
        if is_op(node, "QuantizeLinear"):
            assert node is not None
            self.rounds.append(node)
            self.whole &= _has_point(node) and "output_dtype" not in node.attributes
        elif node is not None:
            yield from self._carried(node)
        elif not value.is_graph_input():
            self.whole &= is_constant(value) and value.is_initializer()

    def _behind(self, value: Value) -> Iterator[Value]:
        for use in value.uses():
            self.whole &= use.node.graph is self.graph
            if is_op(use.node, "DequantizeLinear") and use.idx == 0:
                self.reads.append(use.node)
                self.whole &= len(use.node.inputs) < 3 or _has_point(use.node)
            elif use.idx == 0 or is_op(use.node, *_JOINS):
                yield from self._carried(use.node)
            else:
                self.whole = False

    def _carried(self, node: onnx_ir.Node) -> Iterator[Value]:
        places = len(node.inputs) if is_op(node, *_JOINS) else 1
        values = [*node.inputs[:places], *node.outputs]
        if not is_op(node, *_CARRIES) or any(v is None or v.dtype != DataType.INT8 for v in values):
            self.whole = False  # a MaxPool that gives places, too
            return
        if is_op(node, "Pad"):
            self.pads.add(node)
            self.whole &= node.attributes.get_string("mode", "constant") != "constant" or (
                len(node.inputs) > 2 and is_constant(node.inputs[2])
            )
        yield from (value for value in values if value is not None)

    @property
    def is_plain(self) -> bool:
        """Whether ONNX Runtime makes it uint8 itself."""
        return len(self.values) == len(self.rounds) == 1 and not self.values[0].is_graph_output()

    @property
    def is_wanted(self) -> bool:
        """Whether a kernel asks for uint8."""
        takes = (use.node for node in self.reads for use in node.outputs[0].uses())
        gives = (node.inputs[0] for node in self.rounds)
        return any(is_op(node, *MIXED) for node in takes) or any(
            value is not None and _is_made(value) for value in gives
        )


def _has_point(node: onnx_ir.Node) -> bool:
    return len(node.inputs) > 2 and constant(node.inputs[2]) is not None


def is_signed(node: onnx_ir.Node) -> bool:
    """Whether a node rounds to int8, or makes numbers of int8 that isn't constant."""
    return _signed(node) is not None


def _signed(node: onnx_ir.Node) -> Value | None:
    """The int8 of a Q or DQ, but for those of functions."""
    if not is_op(node, *_ENDS) or not isinstance(node.graph, onnx_ir.Graph):
        return None
    value = node.outputs[0] if is_op(node, "QuantizeLinear") else node.inputs[0]
    found = value is not None and value.dtype == DataType.INT8 and not is_constant(value)
    return value if found else None


def unsigned(node: onnx_ir.Node) -> bool:
    """Makes int8 uint8, where it is moved on the way between Q and DQ.

    Args:
        node: A QuantizeLinear or DequantizeLinear at an end of it: the first by name has it done.

    Returns:
        Whether anything changed.
    """
    value = _signed(node)
    if value is None:
        return False
    assert isinstance(node.graph, onnx_ir.Graph)
    found = Region.around(value, node.graph)
    first = min((*found.rounds, *found.reads), key=lambda end: end.name or "")
    if node is not first or not found.whole or found.is_plain or not found.is_wanted:
        return False
    _Shift(found).shift()
    return True


class _Shift:
    """Adds 128 to a region's integers."""

    def __init__(self, region: Region) -> None:
        self._graph, self._region = region.graph, region

    def shift(self) -> None:
        region = self._region
        for node in (*region.rounds, *region.reads):
            self._move_point(node)
        for node in region.pads:
            if len(node.inputs) > 2 and node.inputs[2] is not None:
                node.replace_input_with(2, self._shifted(node.inputs[2]))
        for value in region.values:
            if is_constant(value):
                value.replace_all_uses_with(self._shifted(value))
            elif value.is_graph_input():
                self._after_input(value)
            else:
                value.type = onnx_ir.TensorType(DataType.UINT8)  # models share types
                if value.is_graph_output():
                    self._before_output(value)

    def _move_point(self, node: onnx_ir.Node) -> None:
        node.resize_inputs(max(len(node.inputs), 3))
        point = node.inputs[2]
        shifted = self._constant("zero_unsigned", _SHIFT, np.uint8)
        node.replace_input_with(2, shifted if point is None else self._shifted(point))

    def _shifted(self, value: Value) -> Value:
        array = constant(value)
        assert array is not None
        return self._constant(f"{value.name}_unsigned", array.astype(np.int16) + _SHIFT, np.uint8)

    def _constant(self, name: str, content: Any, dtype: type[np.generic]) -> Value:
        """An initializer; one that is there already, where it is the same."""
        array, wanted, count = np.asarray(content, dtype), name, 1
        while (there := self._graph.initializers.get(name)) is not None:
            known = constant(there)
            if known is not None and known.dtype == dtype and np.array_equal(known, array):
                return there
            count += 1
            name = f"{wanted}_{count}"
        return add_constant(self._graph, name, array)

    def _after_input(self, value: Value) -> None:
        uses = list(value.uses())
        made = self._converted(value, f"{value.name}_unsigned", DataType.UINT8)
        self._graph.insert_before(next(iter(self._graph)), made)
        for use in uses:
            use.node.replace_input_with(use.idx, made[-1].outputs[0])

    def _before_output(self, value: Value) -> None:
        place, name = list(self._graph.outputs).index(value), value.name
        value.name = f"{name}_unsigned"
        made = self._converted(value, str(name), DataType.INT8)
        producer = value.producer()
        assert producer is not None
        self._graph.insert_after(producer, made)
        self._graph.outputs[place] = made[-1].outputs[0]

    def _converted(self, value: Value, name: str, dtype: DataType) -> list[onnx_ir.Node]:
        """A DQ and a Q that give a value's numbers in the other of the two types."""
        one = self._constant("one", 1, np.float32)
        points = [
            self._constant("zero_signed", 0, np.int8),
            self._constant("zero_unsigned", _SHIFT, np.uint8),
        ]
        before, after = points if dtype == DataType.UINT8 else points[::-1]
        real = onnx_ir.node("DequantizeLinear", [value, one, before], name=f"{name}_Dequantize")
        made = onnx_ir.node(
            "QuantizeLinear", [real.outputs[0], one, after], name=f"{name}_Quantize"
        )
        for output, called, kind in (
            (real.outputs[0], f"{name}_real", DataType.FLOAT),
            (made.outputs[0], name, dtype),
        ):
            output.name, output.type = called, onnx_ir.TensorType(kind)
            output.shape = value.shape
        return [real, made]
