"""Reads a few elementwise nodes as a formula of one tensor: a sum of products.

    Mul(Mul(x, 0.5), Add(Erf(Div(x, 1.4142)), 1))      is      0.5 x + 0.5 x Erf(0.7071 x)

However the formula is written (which factor first, a division or a product, one constant or
two), its sum of products is the same, so that a rule compares that alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.edit import is_op
from converter.ir.facts import ARITHMETIC
from converter.passes.fuse.patterns import close, input_of, scalar

DEPTH = 10
"""Nodes between a formula's end and its tensor, at most."""

STEPS = 64
"""Nodes that are read, again where they are used again, before it is no formula of ours."""

_NODES = 16
_TERMS = 16

Monomial = tuple[int, ...]
"""Indices of factors, sorted: 0 is the tensor, others are functions of it; () is 1."""

Sum = dict[Monomial, float]


@dataclass(frozen=True)
class Function:
    """A function of a formula of the tensor.

    Attributes:
        op: ``Erf``, ``Tanh``..., ``Inverse`` for 1 over it, ``Clip`` for any kind of limits.
        inner: What it is a function of.
        low, high: A Clip's limits.
    """

    op: str
    inner: tuple[tuple[Monomial, float], ...]
    low: float = -np.inf
    high: float = np.inf

    def is_of(self, wanted: Sum) -> bool:
        """Whether it is a function of this, to rounding."""
        return same(dict(self.inner), wanted)


LIMITING = frozenset({"Clip", "Relu", "Min", "Max"})
_FUNCTIONS = LIMITING | {"Erf", "Tanh", "Sigmoid", "Softplus", "Exp", "Log", "Sqrt"}
_ARITHMETIC = ARITHMETIC | {"Neg", "Pow", "Reciprocal"}
READ = _FUNCTIONS | _ARITHMETIC | {"HardSigmoid"}
"""Operators that formulas are read through."""


class Formula:
    """What ``root`` is as a formula of ``x``.

    Attributes:
        terms: The sum of products; None where it isn't a formula of ``x`` alone.
        functions: What the factors from 1 on are.
        nodes: The nodes that were read.
    """

    def __init__(self, root: onnx_ir.Value, x: onnx_ir.Value) -> None:
        self._x = x
        self._steps = 0
        self.functions: list[Function] = []
        self.nodes: list[onnx_ir.Node] = []
        self.terms = self._read(root, DEPTH)

    def function(self, factor: int) -> Function | None:
        """What a factor is; None for the tensor itself."""
        return self.functions[factor - 1] if factor else None

    def _read(self, value: onnx_ir.Value | None, depth: int) -> Sum | None:
        if value is self._x:
            return {(0,): 1.0}
        number = scalar(value)
        if number is not None:
            return (
                {(): number} if value is not None and _stretches_nothing(value, self._x) else None
            )
        node = value.producer() if value is not None else None
        self._steps += 1
        if node is None or depth == 0 or self._steps > STEPS or not is_op(node, *READ):
            return None
        if node not in self.nodes:
            self.nodes.append(node)
        if node.op_type in _ARITHMETIC:
            return self._arithmetic(node, depth - 1)
        if node.op_type in LIMITING:
            return self._clip(node, depth - 1)
        inner = self._read(node.inputs[0], depth - 1)
        if node.op_type == "HardSigmoid":
            return self._hard_sigmoid(node, inner)
        return self._function(node.op_type, inner)

    def _arithmetic(self, node: onnx_ir.Node, depth: int) -> Sum | None:
        parts = [self._read(value, depth) for value in node.inputs]
        known = [part for part in parts if part is not None]
        if len(known) != len(parts):
            return None
        if node.op_type == "Neg":
            return _times(known[0], {(): -1.0})
        if node.op_type == "Reciprocal":
            return self._inverse(known[0])
        first, second = known
        if node.op_type == "Add":
            return _plus(first, second)
        if node.op_type == "Sub":
            return _plus(first, _times(second, {(): -1.0}) or {})
        if node.op_type == "Mul":
            return _times(first, second)
        if node.op_type == "Div":
            inverse = self._inverse(second)
            return _times(first, inverse) if inverse is not None else None
        return _power(first, second)

    def _inverse(self, terms: Sum) -> Sum | None:
        if terms.keys() == {()}:
            return {(): 1 / terms[()]} if terms[()] else None
        return self._function("Inverse", terms)

    def _function(
        self, op: str, inner: Sum | None, low: float = -np.inf, high: float = np.inf
    ) -> Sum | None:
        if inner is None:
            return None
        made = Function(op, tuple(sorted(inner.items())), low, high)
        if made not in self.functions:
            self.functions.append(made)
        return {(self.functions.index(made) + 1,): 1.0}

    def _hard_sigmoid(self, node: onnx_ir.Node, inner: Sum | None) -> Sum | None:
        if inner is None:
            return None
        slope = node.attributes.get_float("alpha", 0.2)
        offset = node.attributes.get_float("beta", 0.5)
        line = _plus(_times(inner, {(): slope}) or {}, {(): offset})
        return self._function("Clip", line, 0.0, 1.0)

    def _clip(self, node: onnx_ir.Node, depth: int) -> Sum | None:
        found = limits(node)
        if found is None:
            return None
        source, low, high = found
        before = source.producer()
        inner_limits = limits(before) if before is not None and source is not self._x else None
        if inner_limits is not None and before is not None and low <= high:
            outer, (source, lower, upper) = (low, high), inner_limits
            if lower > upper:
                return None
            low, high = (float(np.clip(limit, *outer)) for limit in (lower, upper))
            self.nodes.append(before)
        return self._function("Clip", self._read(source, depth), low, high)


def _stretches_nothing(number: onnx_ir.Value, x: onnx_ir.Value) -> bool:
    """Whether a constant of one element has no more dimensions than the tensor."""
    rank = len(number.shape) if number.shape is not None else None
    return rank == 0 or (rank is not None and x.shape is not None and rank <= len(x.shape))


def limits(node: onnx_ir.Node) -> tuple[onnx_ir.Value, float, float] | None:
    """What a node keeps within limits, and these; None where it does something else."""
    if not is_op(node, *LIMITING) or node.inputs[0] is None:
        return None
    if node.op_type == "Relu":
        return node.inputs[0], 0.0, np.inf
    if node.op_type == "Clip":
        ends = [input_of(node, 1), input_of(node, 2)]
        numbers = [scalar(end) for end in ends]
        if any(n is None and end is not None for n, end in zip(numbers, ends, strict=True)):
            return None
        low, high = numbers
        return node.inputs[0], -np.inf if low is None else low, np.inf if high is None else high
    if len(node.inputs) != 2:
        return None
    for source, other in (node.inputs, node.inputs[::-1]):
        number = scalar(other)
        if source is None or other is None or number is None or scalar(source) is not None:
            continue
        if not _stretches_nothing(other, source):
            return None
        return (source, -np.inf, number) if node.op_type == "Min" else (source, number, np.inf)
    return None


def _plus(first: Sum, second: Sum) -> Sum:
    total = dict(first)
    for monomial, factor in second.items():
        total[monomial] = total.get(monomial, 0.0) + factor
    return {monomial: factor for monomial, factor in total.items() if factor}


def _times(first: Sum, second: Sum) -> Sum | None:
    if len(first) * len(second) > _TERMS:
        return None
    product: Sum = {}
    for one, a in first.items():
        for other, b in second.items():
            product = _plus(product, {tuple(sorted((*one, *other))): a * b})
    return product


def _power(base: Sum, exponent: Sum) -> Sum | None:
    power = exponent.get((), 0.0)
    if exponent.keys() != {()} or power not in (2.0, 3.0):
        return None
    result: Sum | None = base
    for _ in range(int(power) - 1):
        result = _times(result, base) if result is not None else None
    return result


def same(terms: Sum, wanted: Sum) -> bool:
    """Whether two sums have the same products, and factors that differ by rounding alone."""
    return terms.keys() == wanted.keys() and all(
        close(terms[monomial], wanted[monomial]) for monomial in wanted
    )


def candidates(root: onnx_ir.Node) -> Iterator[onnx_ir.Value]:
    """Tensors that ``root`` may be a formula of, the one farthest from it first."""
    seen: dict[onnx_ir.Value, None] = {}
    level = [value for value in root.inputs if value is not None]
    for _ in range(DEPTH):
        following: list[onnx_ir.Value] = []
        for value in level:
            if value in seen or scalar(value) is not None:
                continue
            seen[value] = None
            node = value.producer()
            if node is not None and is_op(node, *READ):
                following += [item for item in node.inputs if item is not None]
        level = following
    yield from (value for value in reversed(seen) if _all_ways_end_at(value, root))


def _all_ways_end_at(x: onnx_ir.Value, root: onnx_ir.Node) -> bool:
    """Whether ``root`` is computed from ``x`` and constants by a few nodes of :data:`READ`."""
    seen: dict[onnx_ir.Node, None] = {root: None}
    waiting = list(root.inputs)
    while waiting:
        value = waiting.pop()
        if value is x or value is None or scalar(value) is not None:
            continue
        node = value.producer()
        if node is None or len(seen) > _NODES or not is_op(node, *READ):
            return False
        if node not in seen:
            seen[node] = None
            waiting += node.inputs
    return True
