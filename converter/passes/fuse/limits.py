"""Rules for activations made of limits: chains of them, and Relus with a slope."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.edit import static_shape
from converter.passes.fuse.patterns import (
    Array,
    Edit,
    Rule,
    as_type_of,
    either_order,
    floats,
    producer,
    scalar,
    used_elsewhere,
)
from converter.passes.fuse.terms import LIMITING, limits


@dataclass(frozen=True)
class Chain:
    """Two nodes with limits, the second on the first's result."""

    source: onnx_ir.Value
    first: onnx_ir.Node
    second: onnx_ir.Node
    low: float
    high: float
    empty: bool


class Limits(Rule[Chain]):
    """Clip, Relu, Min and Max by constants, two in a row.

    ``clip(clip(x, a, b), c, d)`` is ``clip(x, clip(a, c, d), clip(b, c, d))`` where a <= b and
    c <= d: both grow with x, from the same least to the same largest value.
    """

    name = "limits"
    roots = LIMITING

    def pattern(self, node: onnx_ir.Node) -> Chain | None:
        """Limits on what has limits."""
        outer = limits(node)
        first = outer[0].producer() if outer is not None else None
        inner = limits(first) if first is not None else None
        if outer is None or inner is None or first is None:
            return None
        source, lower, upper = inner
        low, high = (float(np.clip(end, outer[1], outer[2])) for end in (lower, upper))
        return Chain(source, first, node, low, high, lower > upper or outer[1] > outer[2])

    def check(self, match: Chain) -> str:
        """Whether the limits are in order; what is between may be used by others too."""
        if match.empty:
            return "a lower limit is above the upper one"
        if match.first.graph is not match.second.graph:
            return f"{match.first.name} is of an outer graph"
        return "" if match.source.dtype is not None else "its type isn't known"

    def rewrite(self, match: Chain, edit: Edit) -> None:
        """A Relu, or a Clip with the ends that it has."""
        if (match.low, match.high) == (0.0, np.inf):
            edit.replace(match.second, onnx_ir.node("Relu", [match.source]))
            return
        ends: list[onnx_ir.Value | None] = []
        for name, end in (("min", match.low), ("max", match.high)):
            array = as_type_of(np.array(end), match.source)
            finite = np.isfinite(end)
            ends.append(edit.constant(array, f"{match.second.name}_{name}") if finite else None)
        edit.replace(match.second, onnx_ir.node("Clip", [match.source, *ends]))


@dataclass(frozen=True)
class Sloped:
    """A Relu with a slope below zero."""

    source: onnx_ir.Value
    slope: Array
    slope_name: str
    root: onnx_ir.Node
    inner: tuple[onnx_ir.Node, ...]


class LeakyRelu(Rule[Sloped]):
    """``max(x, a x)``: the first from zero on, the second below it, where 0 < a < 1."""

    name = "leaky-relu"
    roots = frozenset({"Max"})

    def pattern(self, node: onnx_ir.Node) -> Sloped | None:
        """The larger of a tensor and the same times a number."""
        for source, other in either_order(node):
            product = producer(other, "Mul")
            for factor, number in either_order(product) if product is not None else ():
                slope = scalar(number)
                if factor is source and slope is not None and product is not None:
                    name = number.name or "slope"
                    return Sloped(source, np.array(slope), name, node, (product,))
        return None

    def check(self, match: Sloped) -> str:
        """Whether the slope is between 0 and 1."""
        if not 0 < float(match.slope) < 1:
            return f"its slope is {float(match.slope)!r} and would have to be between 0 and 1"
        source, result = static_shape(match.source), static_shape(match.root.outputs[0])
        if source is None or result is None or len(source) != len(result):
            return "its constant may add dimensions"
        return used_elsewhere(match.inner, match.root)

    def rewrite(self, match: Sloped, edit: Edit) -> None:
        slope = {"alpha": float(match.slope)}
        edit.replace(match.root, onnx_ir.node("LeakyRelu", [match.source], slope))


class PRelu(Rule[Sloped]):
    """``relu(x) - a relu(-x)``, which is how Keras spells it, also with ``+ (-a)`` or ``-relu``."""

    name = "prelu"
    roots = frozenset({"Add", "Sub"})

    def pattern(self, node: onnx_ir.Node) -> Sloped | None:
        """A Relu, plus or minus a constant times the Relu of the same, negated."""
        pairs = either_order(node)
        for one, other in pairs[:1] if node.op_type == "Sub" else pairs:
            positive, product = producer(one, "Relu"), producer(other, "Mul")
            if positive is None or product is None:
                continue
            for negative, number in either_order(product):
                found = self._negative(negative, positive.inputs[0])
                slope = floats(number) if found is not None else None
                if found is None or slope is None or positive.inputs[0] is None:
                    continue
                sign = (1.0 if node.op_type == "Sub" else -1.0) * found[0]
                inner = (positive, product, *found[1])
                name = number.name or "slope"
                return Sloped(positive.inputs[0], slope * sign, name, node, inner)
        return None

    def _negative(
        self, value: onnx_ir.Value, source: onnx_ir.Value | None
    ) -> tuple[float, tuple[onnx_ir.Node, ...]] | None:
        """Relu(-source), and its sign; through a Neg of it too."""
        turned = producer(value, "Neg")
        relu = producer(turned.inputs[0] if turned is not None else value, "Relu")
        negated = producer(relu.inputs[0], "Neg") if relu is not None else None
        if relu is None or negated is None or negated.inputs[0] is not source:
            return None
        if turned is None:
            return 1.0, (relu, negated)
        return -1.0, (turned, relu, negated)

    def check(self, match: Sloped) -> str:
        """Whether the slope has a shape that PRelu takes: it may not enlarge the tensor."""
        shape, slope = static_shape(match.source), match.slope.shape
        if shape is None or len(slope) > len(shape):
            return f"its slope of shape {list(slope)} may add dimensions"
        ends = shape[len(shape) - len(slope) :]
        if any(size not in (1, dim) for size, dim in zip(slope, ends, strict=True)):
            return f"its slope of shape {list(slope)} doesn't fit {shape}"
        return used_elsewhere(match.inner, match.root)

    def rewrite(self, match: Sloped, edit: Edit) -> None:
        slope = edit.constant(as_type_of(match.slope, match.source), match.slope_name)
        edit.replace(match.root, onnx_ir.node("PRelu", [match.source, slope]))
