"""Where Q and DQ go: which nodes compute in int8, which tensors are quantized, which share a scale.

Matrix operators are int8 wherever they can be. Another operator (Add, Concat, a pool...) is where
something that it reads is in integers already, and something that reads it wants integers;
otherwise integers would only add rounding. What moves numbers (Reshape, Transpose, MaxPool...)
carries integers on, and Q moves up through what keeps every number.

A tensor has one Q and one DQ. What an int8 kernel writes exists as integers only: whoever reads
it reads the DQ. Where a float kernel wrote it, float readers go on reading the float.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import onnx_ir

from converter.errors import UsageError
from converter.ir.edit import all_nodes, constant_tensor, is_op
from converter.ir.facts import MATRIX_PRODUCTS, REARRANGES
from converter.ir.model import Model
from converter.ir.value_ranges import Range
from converter.precision.int8.nodes import Int8Nodes
from converter.precision.int8.scheme import CLIPPING_OPS, Scheme
from converter.precision.int8.shared_scales import Shares
from converter.precision.int8.units import Unit, sole_use
from converter.precision.quantized import Kept

_UNIT_RANGE = frozenset({"Softmax"})
"""Operators whose outputs are quantized for [0, 1], whatever was measured: a sample that makes
one entry stand out more than those seen would saturate."""


_CASTING_OPS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})


@dataclass(frozen=True)
class Placement:
    """Where Q and DQ go in one model.

    Attributes:
        scheme: By which.
        units: What computes in int8, in the graph's order.
        carriers: Nodes that carry integers on.
        quantized: The tensors that get Q and DQ, in the graph's order.
        only: Those that exist as integers only: all their readers read the DQ.
        groups: By one tensor for each scale, those that have it.
        tensors: Activation tensors whose ranges are needed: a group's range is theirs together.
        sources: By group, those of ``tensors`` that make its range.
        fixed: By group, the scale and zero point that the target demands.
        bounds: Ranges that are known without measuring, by tensor.
        constant_limits: By group, the ranges of constants that have its scale too.
        read: Inputs that read a DQ: pairs of a node and the input's number.
        kept: What stays in float32, and why.
        before: Names of nodes that computed in integers already, Q and DQ left out.
    """

    scheme: Scheme
    units: tuple[Unit, ...]
    carriers: tuple[onnx_ir.Node, ...]
    quantized: tuple[onnx_ir.Value, ...]
    only: frozenset[str]
    groups: dict[str, tuple[str, ...]]
    tensors: tuple[str, ...]
    sources: dict[str, tuple[str, ...]]
    fixed: dict[str, tuple[float, int]]
    bounds: dict[str, Range]
    constant_limits: dict[str, list[Range]]
    read: frozenset[tuple[onnx_ir.Node, int]]
    kept: tuple[Kept, ...]
    before: tuple[str, ...]


def place(model: Model, scheme: Scheme, keep: Collection[str] = ()) -> Placement:
    """Decides where Q and DQ go in the main graph; changes nothing.

    Nodes next to Q, DQ or integer operators of the model's own are left as they are.

    Args:
        model: At the pipeline's opset, simplified, every node named, types inferred.
        scheme: The target's.
        keep: Names of nodes that stay in float32. What another node takes in (a Relu, a Clip,
            a bias Add) goes where that one goes.

    Raises:
        UsageError: ``keep`` names a node that isn't there.
    """
    require_nodes(model, keep)
    return _Placer(Int8Nodes(model, scheme, frozenset(keep))).place()


def require_nodes(model: Model, names: Collection[str]) -> None:
    """Raises UsageError where there are no nodes of these names, in bodies neither."""
    unknown = sorted(set(names) - {node.name for node in all_nodes(model.graph)})
    if unknown:
        raise UsageError(
            f"the model has no nodes with these names to keep in float32: {', '.join(unknown)}",
            code="unknown-name",
            hint="`modelyard sensitivity` lists the names.",
        )


def possible_tensors(model: Model, scheme: Scheme) -> tuple[str, ...]:
    """Activation tensors whose ranges are needed, whichever nodes are kept in float32.

    A kept node moves Q elsewhere: of Conv -> MaxPool -> Conv without the first, in front of the
    second. So these are more than ``place(model, scheme).tensors``.

    Args:
        model: As for :func:`place`.
        scheme: The target's.
    """
    nodes = Int8Nodes(model, scheme, frozenset())
    found: dict[str, None] = {}
    for node in nodes.nodes:
        unit = nodes.units.get(node)
        if unit is not None:
            parts = (node, *unit.folded)
            values = [node.inputs[i] for i in unit.activations]
            values += [part.outputs[0] for part in parts]
        elif nodes.can_carry(node) and any(nodes.is_demanded(value) for value in node.outputs):
            values = [node.inputs[0], *node.outputs]
        else:
            continue
        found.update(dict.fromkeys(_name(value) for value in values))
    return tuple(found)


class _Placer:
    def __init__(self, nodes: Int8Nodes) -> None:
        self.nodes, self.scheme, self.units = nodes, nodes.scheme, nodes.units
        self.carriers: set[onnx_ir.Node] = set()
        self.quantized: set[onnx_ir.Value] = set()
        self.read: set[tuple[onnx_ir.Node, int]] = set()

    def place(self) -> Placement:
        for unit in self.units.values():
            if self.nodes.writes_integers(unit):
                self.quantized.add(unit.end)
            for index in self._quantized_inputs(unit):
                self._want(unit.node, index)
        shares = self._shares()
        ordered = tuple(value for value in self._values() if value in self.quantized)
        groups = shares.groups(_name(value) for value in ordered)
        carried = {_name(value) for node in self.carriers for value in node.outputs}
        shared = {
            _name(u.end) for u in self.units.values() if u.node.op_type in self.scheme.shared_ops
        }
        sources = {
            head: tuple(name for name in members if name not in carried | shared)
            for head, members in groups.items()
        }
        return Placement(
            self.scheme,
            tuple(self.units[node] for node in self.nodes.nodes if node in self.units),
            tuple(node for node in self.nodes.nodes if node in self.carriers),
            ordered,
            frozenset(carried | {_name(end) for end in self.nodes.ends if end in self.quantized}),
            groups,
            tuple(name for names in sources.values() for name in names),
            sources,
            self._fixed(shares),
            {
                _name(value): (0.0, 1.0)
                for value in ordered
                if is_op(value.producer(), *_UNIT_RANGE)
            },
            self._constant_limits(shares),
            frozenset(self.read),
            tuple(self.nodes.kept()),
            tuple(self._before()),
        )

    def _before(self) -> Iterator[str]:
        for node in self.nodes.nodes:
            if node in self.nodes.before and not is_op(node, *_CASTING_OPS):
                yield node.name or ""

    def _quantized_inputs(self, unit: Unit) -> list[int]:
        indices = list(unit.activations)
        if self.scheme.skips_only and is_op(unit.node, "Add"):
            taken = next((i for i in indices if self._can_be_taken_in(unit.node.inputs[i])), None)
            indices = [i for i in indices if i != taken]
        return indices

    def _can_be_taken_in(self, value: onnx_ir.Value | None) -> bool:
        unit = None if value is None else self.nodes.ends.get(value)
        return (
            unit is not None
            and unit.node.op_type in MATRIX_PRODUCTS
            and not any(is_op(node, *CLIPPING_OPS) for node in unit.folded)
            and sole_use(unit.end) is not None
        )

    def _want(self, node: onnx_ir.Node, index: int) -> None:
        """Lets an input read integers: Q goes as far up as every number stays itself."""
        value = node.inputs[index]
        assert value is not None
        producer = value.producer()
        if is_op(producer, "DequantizeLinear"):
            return
        self.read.add((node, index))
        if value in self.quantized:
            return
        if producer is not None and self._carries_up(producer):
            self.carriers.add(producer)
            self.quantized.update(producer.outputs)
            self._want(producer, 0)
            return
        self.quantized.add(value)

    def _carries_up(self, node: onnx_ir.Node) -> bool:
        if not self.nodes.can_carry(node):
            return False
        if is_op(self.nodes.root(node.inputs[0]).producer(), "DequantizeLinear"):
            return False  # its scale is the model's own
        return is_op(node, *REARRANGES) or self.nodes.is_supplied(node.inputs[0])

    def _shares(self) -> Shares:
        shares = Shares()
        for node in self.nodes.nodes:
            unit = self.units.get(node)
            if node in self.carriers:
                shares.join(_name(value) for value in (node.inputs[0], *node.outputs))
            elif unit is not None and node.op_type in self.scheme.shared_ops:
                inputs = (node.inputs[i] for i in unit.activations)
                shares.join(
                    _name(value) for value in (*inputs, unit.end) if value in self.quantized
                )
        return shares

    def _fixed(self, shares: Shares) -> dict[str, tuple[float, int]]:
        return {
            shares.head(_name(unit.end)): self.scheme.fixed_outputs[unit.node.op_type]
            for unit in self.units.values()
            if unit.node.op_type in self.scheme.fixed_outputs and unit.end in self.quantized
        }

    def _constant_limits(self, shares: Shares) -> dict[str, list[Range]]:
        found: dict[str, list[Range]] = {}
        for unit in self.units.values():
            if unit.node.op_type in self.scheme.shared_ops:
                for index in unit.constants:
                    array = constant_tensor(unit.node.inputs[index]).numpy()  # type: ignore[union-attr]
                    limits = float(array.min()), float(array.max())
                    found.setdefault(shares.head(_name(unit.end)), []).append(limits)
        return found

    def _values(self) -> Iterator[onnx_ir.Value]:
        yield from self.nodes.inputs
        for node in self.nodes.nodes:
            yield from node.outputs


def _name(value: onnx_ir.Value | None) -> str:
    assert value is not None and value.name is not None
    return value.name
