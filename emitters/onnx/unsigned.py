"""Int8 next to products, as uint8.

On x86, ONNX Runtime has int8 kernels for products of uint8 alone. Its optimizer makes uint8 of int8
where a DQ follows a Q, and not where a Concat, a Slice, or the border of the graph is between them:
such layers run in float32. Here all integers between Q and DQ are 128 more, as are their zero
points: q - z is the same number. Int8 at the border of the graph stays: a DQ and a Q, which give
q + 128, are put beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, constant, is_constant, is_op
from emitters.onnx.integers import ENDS, ONTO, PRODUCTS, is_made

DataType = onnx_ir.DataType
Value = onnx_ir.Value

MIXED = (*PRODUCTS, "Add", "Mul")
"""Operators whose int8 kernels want one type of all activations."""

_CARRIES = ONTO | {"Concat", "Expand", "Gather", "Identity", "MaxPool", "Pad", "Split", "Tile"}
_JOINS = ("Concat",)
_SHIFT = 128


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
            value is not None and is_made(value) for value in gives
        )


def _has_point(node: onnx_ir.Node) -> bool:
    return len(node.inputs) > 2 and constant(node.inputs[2]) is not None


def is_signed(node: onnx_ir.Node) -> bool:
    """Whether a node rounds to int8, or makes numbers of int8 that isn't constant."""
    return _signed(node) is not None


def _signed(node: onnx_ir.Node) -> Value | None:
    """The int8 of a Q or DQ, but for those of functions."""
    if not is_op(node, *ENDS) or not isinstance(node.graph, onnx_ir.Graph):
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
