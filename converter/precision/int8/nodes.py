"""Which nodes compute in int8.

Matrix operators do wherever they can. Another operator (Add, Concat, a pool...) does where
something that it reads is in integers already, and something that reads it wants integers;
otherwise integers would only add rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir

from converter.ir.edit import constant, is_op
from converter.ir.facts import MATRIX_PRODUCTS, MEANS, MOVES
from converter.ir.model import Model, dtype_name
from converter.precision.int8.scheme import CLIPPING_OPS, Scheme
from converter.precision.int8.units import (
    QUANTIZED_OPS,
    Unit,
    is_float,
    matrix_unit,
    merges,
    other_unit,
    sole_use,
)
from converter.precision.quantized import Kept


class Int8Nodes:
    """The nodes of a model that compute in int8 by a scheme.

    Args:
        model: At the pipeline's opset, every node named.
        scheme: What the target computes in int8.
        keep: Names of nodes that stay in float32.

    Attributes:
        inputs: The main graph's inputs.
        nodes: The main graph's nodes, in order.
        units: What computes in int8, by its operator.
        ends: The same by what it hands on.
        before: Nodes that computed in integers already.
    """

    def __init__(self, model: Model, scheme: Scheme, keep: frozenset[str]) -> None:
        self.scheme, self.keep = scheme, keep
        self.inputs = tuple(model.graph.graph.inputs)
        self.nodes = list(model.graph.graph)
        self.before = {node for node in self.nodes if _holds_integers(node)}
        self._varying = _varying(self.inputs, self.nodes)
        self._reasons: dict[onnx_ir.Node, str] = {}
        self._demanded: dict[onnx_ir.Value, bool] = {}
        self.units = {unit.node: unit for unit in self._candidates()}
        self.ends = {unit.end: unit for unit in self.units.values()}
        self._settle()

    def kept(self) -> Iterator[Kept]:
        """What stays in float32, and why."""
        folded = {node for unit in self.units.values() for node in unit.folded}
        for node in self.nodes:
            if node in self._reasons and node not in self.units and node not in folded:
                yield Kept(node.name or "", node.op_type, self._reasons[node])

    def _candidates(self) -> Iterator[Unit]:
        taken: set[onnx_ir.Node] = set()
        for node in self.nodes:
            if node in taken or node in self.before:
                continue
            unit = self._candidate(node)
            if isinstance(unit, Unit) and not self._is_fed(unit):
                unit = "it computes with something that depends on no input"
            if isinstance(unit, str):
                self._reasons[node] = unit
            elif unit is not None:
                taken.update(unit.folded)
                yield unit

    def _candidate(self, node: onnx_ir.Node) -> Unit | str | None:
        if node.domain not in ("", "ai.onnx"):
            return f"{self.scheme.name} knows no {node.domain}::{node.op_type}"
        if not any(is_float(value) for value in node.outputs) or is_op(node, "Constant"):
            matrix = node.op_type in MATRIX_PRODUCTS
            return f"its numbers are {dtype_name(node.outputs[0].dtype)}" if matrix else None
        if node.name in self.keep:
            return "kept in float32 on request"
        if node.op_type in self.scheme.matrix_ops:
            return matrix_unit(node, self.scheme)
        if node.op_type in self.scheme.other_ops | CLIPPING_OPS:
            return other_unit(node)
        if node.op_type in self.scheme.carrying_ops:
            return None
        return f"{self.scheme.name} has no int8 {node.op_type}"

    def _is_fed(self, unit: Unit) -> bool:
        return all(unit.node.inputs[i] in self._varying for i in unit.activations)

    def _settle(self) -> None:
        """Drops operators without integers around them, until none is left to drop."""
        while True:
            self._demanded = {}
            dropped = {node: why for node in self.units if (why := self._why_not(node))}
            if not dropped:
                return
            self._reasons.update(dropped)
            for node in dropped:
                unit = self.units.pop(node)
                del self.ends[unit.end]
                self._reasons.update(dict.fromkeys(unit.folded, dropped[node]))

    def _why_not(self, node: onnx_ir.Node) -> str | None:
        if node.op_type in MATRIX_PRODUCTS:
            return None
        unit = self.units[node]
        inputs = [node.inputs[i] for i in unit.activations]
        if not any(self.is_supplied(value) for value in inputs):
            return "its input is computed in float32"
        if self.scheme.skips_only and unit.constants:
            return "it is computed in float32, like the nodes that feed it"
        if not self.scheme.whole and not self.is_demanded(unit.end):
            return "its reader computes in float32"
        if is_op(node, "Add", "Sub") and is_op(sole_use(unit.end), "Softmax"):
            return "a mask before a Softmax would use up the range"
        if is_op(node, "Add") and self.scheme.activations != "int16" and _only_normalized(unit.end):
            return "a few large channels before a normalization would use up the range"
        if _divides(unit.end):
            return "in integers, a divisor could be rounded to 0"
        if node.op_type in self.scheme.shared_ops and any(self._is_fixed(v) for v in inputs):
            return "its inputs can't share a scale: the target fixes one of them"
        return None

    # -- questions to values -----------------------------------------------------------

    def is_supplied(self, value: onnx_ir.Value | None) -> bool:
        """Whether something in int8 makes this value, and hands integers on by itself."""
        root = self.root(value)
        unit = self.ends.get(root)
        if unit is None:
            return is_op(root.producer(), "DequantizeLinear")
        free = not self.scheme.output_ops or unit.node.op_type not in MATRIX_PRODUCTS
        return free or self.writes_integers(unit)

    def _is_fixed(self, value: onnx_ir.Value | None) -> bool:
        unit = self.ends.get(self.root(value))
        return unit is not None and unit.node.op_type in self.scheme.fixed_outputs

    def root(self, value: onnx_ir.Value | None) -> onnx_ir.Value:
        """Where the numbers of a value come from, up through what only carries them."""
        assert value is not None
        while self.can_carry(value.producer()):
            value = value.producer().inputs[0]  # type: ignore[union-attr]
            assert value is not None
        return value

    def can_carry(self, node: onnx_ir.Node | None) -> bool:
        """Whether a node could hand integers on unchanged."""
        return (
            node is not None
            and is_op(node, *self.scheme.carrying_ops)
            and node.name not in self.keep
            and is_float(node.inputs[0])
            and node.inputs[0] in self._varying
            and self._keeps_numbers(node)
            and all(is_float(value) for value in node.outputs)
        )

    def _keeps_numbers(self, node: onnx_ir.Node) -> bool:
        """Whether what comes out is in the range of what goes in, at the same steps."""
        if is_op(node, "Resize"):
            mode = node.attributes.get_string("mode", "nearest")
            return mode == "nearest" or (self.scheme.blending_resize and mode == "linear")
        if is_op(node, "Pad") and node.attributes.get_string("mode", "constant") == "constant":
            value = node.inputs[2] if len(node.inputs) > 2 else None
            number = constant(value)
            return value is None or (number is not None and not number.any())
        return True

    def is_demanded(self, value: onnx_ir.Value) -> bool:
        """Whether something in int8 reads this value, itself or carried on."""
        if value not in self._demanded:
            self._demanded[value] = any(
                use.idx in self.units[use.node].activations
                if use.node in self.units
                else use.idx == 0
                and self.can_carry(use.node)
                and any(self.is_demanded(output) for output in use.node.outputs)
                for use in value.uses()
            )
        return self._demanded[value]

    def writes_integers(self, unit: Unit) -> bool:
        """Whether a unit's output is quantized whatever reads it."""
        if unit.node.op_type in self.scheme.output_ops:
            return True
        taken = unit.folded[1:] if merges(unit, self.scheme) else unit.folded
        clipped = len(taken) == 1 and is_op(taken[0], *CLIPPING_OPS)
        return self.scheme.clip_needs_output and clipped


def _only_normalized(value: onnx_ir.Value) -> bool:
    """Whether nothing reads a value but LayerNormalization, in float: a residual's sum."""
    readers = value.consumers()
    return bool(readers) and all(is_op(node, "LayerNormalization") for node in readers)


def _divides(value: onnx_ir.Value) -> bool:
    """Whether something is divided by a value, or by its means or sums with constants: by squares
    of deviations, say, where no normalization was recognized. Small numbers of it count then."""
    seen = [value]
    for reached in seen:  # grows
        for node in dict.fromkeys(reached.consumers()):
            if _counts_small(reached, node):
                return True
            if _passes_small(node):
                seen += (output for output in node.outputs if output not in seen)
    return False


def _counts_small(value: onnx_ir.Value, node: onnx_ir.Node) -> bool:
    if is_op(node, "Div"):
        return node.inputs[1] is value
    exponent = constant(node.inputs[1]) if is_op(node, "Pow") else None
    low = exponent is not None and bool((exponent < 1).any())
    return low or is_op(node, "Log", "Reciprocal", "Sqrt")


def _passes_small(node: onnx_ir.Node) -> bool:
    if is_op(node, "Add", "Mul"):
        return any(constant(item) is not None for item in node.inputs)
    return is_op(node, *MOVES, *MEANS, "Clip")


def _varying(
    inputs: Iterable[onnx_ir.Value], nodes: Iterable[onnx_ir.Node]
) -> set[onnx_ir.Value | None]:
    """Values that can differ from run to run: those that depend on an input."""
    found: set[onnx_ir.Value | None] = {value for value in inputs if not value.is_initializer()}
    for node in nodes:
        if any(value in found for one in (node, *_inside(node)) for value in one.inputs):
            found.update(node.outputs)
    return found


def _inside(node: onnx_ir.Node) -> Iterator[onnx_ir.Node]:
    for attribute in node.attributes.values():
        if attribute.type == onnx_ir.AttributeType.GRAPH:
            yield from onnx_ir.traversal.RecursiveGraphIterator(attribute.as_graph())


def _holds_integers(node: onnx_ir.Node) -> bool:
    if is_op(node, *QUANTIZED_OPS):
        return True
    if not is_op(node, *MATRIX_PRODUCTS):
        return False
    return all(
        is_op(value.producer(), "DequantizeLinear")
        for value in node.inputs[:2]
        if value is not None
    )
