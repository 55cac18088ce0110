"""Which nodes have to stay in float32, from what they compute and what was measured.

A tensor that half a precision can't hold keeps every node that makes or reads it in float32:

1. Its values reach a quarter of the largest number (the samples needn't hold the extreme case).
2. Its values lie all below the normal numbers, where precision goes.
3. It is kept from zero by a constant that is (almost) zero in half a precision: the epsilon of a
   normalization, of a logarithm. That goes on until the value is large enough: the root of an
   epsilon may be a normal number.
4. It is small where the smallest values count: under a logarithm, a root, a fraction.
5. It is one of two large numbers whose difference is small.
6. It is an angle of many turns, a large exponent, or counts further than integers are exact.
7. It decides about integers: rounded, or cast to an integer.
8. A logarithm is taken of it, and its smallest values are far below its largest: a logarithm shows
   errors relative to the small ones, while all that is linear before it makes errors relative to
   the large ones. So everything linear before it stays too.

A node stays as well

9. for a constant that doesn't bear the format (:mod:`converter.precision.fp16.weights`),
10. for a sum inside it that may be too large,
11. where nothing was measured and its range can't be told.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import onnx_ir

from converter.ir.edit import constant, is_constant, is_op
from converter.precision.fp16.graph import Network, Place
from converter.precision.fp16.measured import Measurements
from converter.precision.fp16.ops import (
    COUNTING,
    DIVISORS,
    INSIDE,
    LARGE,
    SPECTRAL,
    UNBOUNDED,
    decides,
    floor_of,
    from_bool,
    guarded,
    is_added,
    summed,
)
from converter.precision.fp16.types import is_float32
from converter.precision.fp16.weights import UNHARMED, Damage, Format, damage, smallest

MARGIN = 4.0
"""How much larger values may become than those that were measured."""

CANCELLED = 1 / 32
"""How much smaller than its terms a difference may be, times the format's precision."""

ANGLE = 1 / 256
"""Largest angle, in radians, times the format's precision: 8 in float16."""

EXPONENT = 1 / 32
"""Largest exponent of a Softmax, times the format's precision: 64 in float16, an error of 3%."""


class Choice:
    """The nodes of a model that have to stay in float32, and why.

    Args:
        network: Of the model.
        measured: What its tensors hold.
        into: The format.

    Attributes:
        reasons: For each such node, why.
        forced: Its place, and those of values that are carried or handed out of a branch.
    """

    def __init__(
        self,
        network: Network,
        measured: Measurements,
        into: Format,
    ) -> None:
        self._network, self._into = network, into
        self._measured, self.largest = measured, measured.largest
        self._damage: dict[onnx_ir.Value, Damage] = {}
        self._wide: dict[onnx_ir.Value, str] = {}
        self.reasons: dict[onnx_ir.Node, str] = {}
        self.forced: set[Place] = set()
        nodes = [node for node, slots in network.slots.items() if slots.any]
        self._tensors(nodes)
        for node in nodes:
            self.stay(node, self._why(node))
        self._unheld(nodes)
        self._integers()
        self._guards(nodes)
        self._spread()

    # -- tensors -------------------------------------------------------------------

    def _widen(self, value: onnx_ir.Value | None, why: str) -> None:
        if value is not None and why and is_float32(value) and not is_constant(value):
            self._wide.setdefault(value, why)

    def stay(self, node: onnx_ir.Node, why: str, *, first: bool = False) -> None:
        """Leaves a node in float32.

        Args:
            node: The node.
            why: The reason, for the report; where it is empty, nothing changes.
            first: Whether the reason takes the place of an earlier one.
        """
        if why:
            self.reasons[node] = why if first else self.reasons.get(node, why)
            self.forced.add(self._network.of_node[node])

    def _tensors(self, nodes: list[onnx_ir.Node]) -> None:
        for value in self._network.makers:
            self._widen(value, self._out_of_range(value))
        for node in nodes:
            rule = _TENSOR_RULES.get(node.op_type)
            if rule is not None and node.domain == "":
                rule(self, node)

    def _out_of_range(self, value: onnx_ir.Value) -> str:
        largest, into = self.largest(value), self._into
        if largest is None:
            return ""
        if largest > into.largest / MARGIN:
            return f"its values reach {largest:.3g}, {into.name} ends at {into.largest:g}"
        if 0 < largest < into.normal * MARGIN:
            return f"its values, at most {largest:.2g}, are too small for {into.name}"
        return ""

    def _small_counts(self, node: onnx_ir.Node, place: int = 0) -> None:
        value = node.inputs[place]
        found = self._measured.extremes(value)
        if found is not None and 0 < found[0] < self._into.normal:
            why = f"{node.op_type} of values down to {found[0]:.2g}, too small for"
            self._widen(value, f"{why} {self._into.name}")

    def _exponents(self, node: onnx_ir.Node) -> None:
        """Of large exponents the rounding shows; those far below the largest don't count."""
        found = self._measured.extremes(node.inputs[0])
        if found is not None and abs(found[1]) > EXPONENT * self._into.exact:
            self._widen(node.inputs[0], f"{node.op_type} of numbers up to {found[1]:.3g}")

    def _logarithm(self, node: onnx_ir.Node) -> None:
        """Case 8, and what is linear before it."""
        self._small_counts(node)
        producer = node.inputs[0].producer() if node.inputs[0] is not None else None
        floor = floor_of(producer) if producer is not None else 0.0
        low, high = self._measured.extremes(node.inputs[0]) or (1.0, 1.0)
        if 0 < floor < low:  # what was measured held no silence, and the constant is there for it
            low = floor
        if 0 < low * self._into.exact * 4 < high:
            self._widen_linear(node.inputs[0], f"a logarithm is taken of it, down to {low:.2g}")

    def _widen_linear(self, end: onnx_ir.Value | None, why: str) -> None:
        queue, seen = deque([end]), {end}
        while queue:
            value = queue.popleft()
            if value is None:
                continue
            self._widen(value, why)
            producer = value.producer()
            if producer is not None and is_op(producer, *SPECTRAL):
                more = dict.fromkeys(v for v in producer.inputs if v not in seen)
                seen.update(more)
                queue.extend(more)

    def _denominator(self, node: onnx_ir.Node) -> None:
        self._small_counts(node, 1)

    def _power(self, node: onnx_ir.Node) -> None:
        exponent = self._measured.extremes(node.inputs[1])
        if exponent is None or exponent[0] < 1:
            self._small_counts(node)

    def _angle(self, node: onnx_ir.Node) -> None:
        largest = self.largest(node.inputs[0])
        if largest is None or largest > ANGLE * self._into.exact:
            seen = "of unknown size" if largest is None else f"up to {largest:.3g}"
            self._widen(node.inputs[0], f"{node.op_type} of angles {seen}")
            self.stay(node, f"{node.op_type} of angles {seen}")

    def _difference(self, node: onnx_ir.Node) -> None:
        terms = [self.largest(value) for value in node.inputs]
        left = self.largest(node.outputs[0])
        known = [term for term in terms if term is not None]
        if left and len(known) == len(terms) and max(known) > left * CANCELLED * self._into.exact:
            why = f"terms up to {max(known):.3g} cancel to at most {left:.2g}"
            for value in node.inputs:
                self._widen(value, why)

    def _from_integers(self, node: onnx_ir.Node) -> None:
        source, exact = node.inputs[0], self._into.exact
        if source is None or source.dtype is None or not source.dtype.is_integer():
            return
        largest = self.largest(node.outputs[0])
        if largest is None:
            largest = self.largest(source)
        if largest is None and not from_bool(source):
            self._widen(node.outputs[0], "it counts, nobody knows how far")
        elif largest is not None and largest > exact:
            why = f"it counts to {largest:g}, {self._into.name} is exact to {exact}"
            self._widen(node.outputs[0], why)

    # -- guards and integers -------------------------------------------------------

    def _guards(self, nodes: list[onnx_ir.Node]) -> None:
        """Case 3: from every tiny constant on to the fraction or logarithm that it is there for."""
        for node in nodes:
            floor = floor_of(node)
            if 0 < floor < self._into.normal:
                path: dict[onnx_ir.Value, float] = {}
                if guarded(node.outputs[0], floor, path):
                    self.stay(node, f"it keeps values from zero by {floor:.2g}")
                for value, least in path.items():
                    if least < self._into.normal:
                        self._widen(value, f"it may be as small as {least:.2g}")

    def _unheld(self, nodes: list[onnx_ir.Node]) -> None:
        """Where a constant is beyond the format and what becomes of it wasn't measured."""
        queue = deque(node for node in nodes if self._constants(node).kind == "large")
        while queue:
            for value in queue.popleft().outputs:
                if self.largest(value) is None and value not in self._wide:
                    self._widen(value, f"it may hold numbers beyond {self._into.largest:g}")
                    queue.extend(use.node for use in value.uses() if is_op(use.node, *LARGE))

    def _integers(self) -> None:
        """Case 7: from every rounding on, backwards to where the numbers come from."""
        queue = deque(
            value
            for graph_node in self._network.slots
            if is_op(graph_node, "Cast", "Floor", "Ceil", "Round", "Mod")
            for value in decides(graph_node)
        )
        seen = set(queue)
        while queue:
            value = queue.popleft()
            node = value.producer()
            if node is None or not is_op(node, *COUNTING):
                continue
            self._widen(value, "integers are made of it")
            more = [v for v in node.inputs if v is not None and is_float32(v) and v not in seen]
            seen.update(more)
            queue.extend(more)

    # -- nodes ---------------------------------------------------------------------

    def _why(self, node: onnx_ir.Node) -> str:
        return self._constants(node).words or self._sums(node) or self._unmeasured(node)

    def _constants(self, node: onnx_ir.Node) -> Damage:
        for place in self._network.slots[node].with_node:
            value = node.inputs[place]
            if value is None or not is_constant(value):
                continue
            if value not in self._damage:
                assert value.const_value is not None
                self._damage[value] = damage(value.const_value.numpy(), self._into)
            found = self._damage[value]
            if found.kind == "large" or (found.kind == "small" and not is_added(node, place)):
                return found
            if place == DIVISORS.get(node.op_type):
                array = constant(value)
                if array is not None and 0 < smallest(array) < self._into.normal:
                    return Damage("small", f"it divides by numbers down to {smallest(array):.2g}")
        return UNHARMED

    def _sums(self, node: onnx_ir.Node) -> str:
        inside = INSIDE.get(node.op_type)
        if inside is None or node.domain != "":
            return ""
        result, data = self.largest(node.outputs[0]), self.largest(node.inputs[0])
        if result is None or data is None:
            return ""
        reached = inside(result, data, summed(node))
        if reached > self._into.largest / MARGIN:
            end = f"{self._into.name} ends at {self._into.largest:g}"
            return f"sums inside it may reach {reached:.3g}, {end}"
        return ""

    def _unmeasured(self, node: onnx_ir.Node) -> str:
        if node.op_type not in UNBOUNDED or node.domain or self._into.name != "float16":
            return ""
        missing = any(self.largest(value) is None for value in node.outputs if is_float32(value))
        return "its range isn't known: it wasn't measured" if missing else ""

    def _spread(self) -> None:
        """A wide tensor's maker and readers are wide."""
        for value, place in self._network.makers.items():
            self._force(place, self._wide.get(value, ""))
        for read in self._network.reads:
            self._force(read.by, self._wide.get(read.value, ""))

    def _force(self, place: Place, why: str) -> None:
        if why and place.fixed is None:
            self.forced.add(place)
            if place.node is not None:
                self.reasons.setdefault(place.node, why)


_TENSOR_RULES: dict[str, Any] = {
    "Add": Choice._difference,
    "Cast": Choice._from_integers,
    "Cos": Choice._angle,
    "Div": Choice._denominator,
    "Log": Choice._logarithm,
    "LogSoftmax": Choice._exponents,
    "Pow": Choice._power,
    "Reciprocal": Choice._small_counts,
    "Sin": Choice._angle,
    "Softmax": Choice._exponents,
    "Sqrt": Choice._small_counts,
    "Sub": Choice._difference,
}
