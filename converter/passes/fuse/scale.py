"""Takes one number that a tensor is multiplied by back to the weights that it comes from.

    MatMul(Transpose(Reshape(x Wq + bq)), k) / 8    ->    MatMul(Transpose(Reshape(x Wq' + bq')), k)

which is attention's ``1 / sqrt(d)``, folded into the query's weights. The number passes whatever
is linear, products and sums, and a positive one what is linear on either side of zero, up to
constants that it is multiplied into.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir

from converter.ir.edit import constant_tensor, is_op
from converter.ir.facts import HOMOGENEOUS, LINEAR, MATRIX_PRODUCTS
from converter.passes.fuse.linear import LARGE
from converter.passes.fuse.patterns import (
    Edit,
    Rule,
    as_type_of,
    either_order,
    floats,
    input_of,
    only_used_by,
    scalar,
)

_DEPTH = 12


@dataclass(frozen=True)
class Scaled:
    """A product with one number.

    Attributes:
        root: The Mul, Div or Neg.
        source: What is multiplied.
        factor: By what.
    """

    root: onnx_ir.Node
    source: onnx_ir.Value
    factor: float


Place = tuple[onnx_ir.Node, int]
"""A constant input of a node that takes the factor."""


class ScaleFarther(Rule[Scaled]):
    name = "scale-into-weights"
    roots = frozenset({"Mul", "Div", "Neg"})

    def pattern(self, node: onnx_ir.Node) -> Scaled | None:
        """A product by one number, of something that is computed by an operator it may pass."""
        if node.op_type == "Neg":
            value = node.inputs[0]
            passed = value is not None and is_op(value.producer(), *_PASSED)
            return Scaled(node, value, -1.0) if passed and value is not None else None
        for source, other in either_order(node)[: 1 if node.op_type == "Div" else 2]:
            number, before = scalar(other), source.producer()
            if number is None or before is None or not is_op(before, *_PASSED):
                continue
            factor = number if node.op_type == "Mul" else 1 / number if number else np.inf
            return Scaled(node, source, factor)
        return None

    def check(self, match: Scaled) -> str:
        """Whether it reaches constants on a way that nothing else uses."""
        if not np.isfinite(match.factor) or match.factor == 0:
            return f"a factor of {match.factor:g}"
        for other in match.root.inputs:
            shape, own = match.source.shape, other.shape if other is not None else None
            if other is match.source or (own is not None and not len(own)):
                continue
            if own is None or shape is None or len(own) > len(shape):
                return "its constant may add dimensions"
        found = _places(match.source, match.root, match.factor, _DEPTH)
        if isinstance(found, str):
            return found
        return "" if all(self._fits(match, place) for place in found) else "it doesn't stay finite"

    def _fits(self, match: Scaled, place: Place) -> bool:
        value = place[0].inputs[place[1]]
        array = floats(value)
        assert array is not None and value is not None and value.dtype is not None
        largest = float(value.dtype.max)
        return float(np.max(np.abs(array), initial=0)) * abs(match.factor) <= largest

    def rewrite(self, match: Scaled, edit: Edit) -> None:
        """The constants times the factor, and the product gone."""
        found = _places(match.source, match.root, match.factor, _DEPTH)
        assert not isinstance(found, str)
        for node, index in found:
            value = node.inputs[index]
            array = floats(value)
            assert value is not None and array is not None
            scaled = as_type_of(array * match.factor, value)
            node.replace_input_with(index, edit.with_contents(value, scaled))
        edit.bypass(match.root, match.source)


_PASSED = HOMOGENEOUS | MATRIX_PRODUCTS | {"Add", "Sub", "Mul"}


def _places(
    value: onnx_ir.Value, user: onnx_ir.Node, factor: float, depth: int
) -> list[Place] | str:
    """The constants that ``value`` times ``factor`` can be had from, or why there are none."""
    node = value.producer()
    if node is None or depth == 0:
        return f"there are no weights behind {value.name}"
    if node.graph is not user.graph:
        return f"{value.name} is of an outer graph"
    if not only_used_by(value, [user]):
        return f"{value.name} is used elsewhere too, or an output"
    if is_op(node, *MATRIX_PRODUCTS) and _constant(node, 1):
        return _linear(node)
    if len(node.outputs) > 1 or not node.inputs or node.inputs[0] is None:
        return f"{node.name} ({node.op_type}) has more than one output"
    if is_op(node, *(HOMOGENEOUS if factor > 0 else LINEAR)):
        return _places(node.inputs[0], node, factor, depth - 1)
    if is_op(node, "MatMul", "Mul"):
        return _product(node, factor, depth)
    if is_op(node, "Add", "Sub"):
        return _sum(node, factor, depth)
    return f"{node.name} ({node.op_type}) doesn't pass a factor on"


def _constant(node: onnx_ir.Node, index: int) -> bool:
    tensor = constant_tensor(input_of(node, index))
    return tensor is not None and tensor.dtype.is_floating_point() and tensor.nbytes <= LARGE


def _linear(node: onnx_ir.Node) -> list[Place] | str:
    if input_of(node, 2) is None:
        return [(node, 1)]
    return [(node, 1), (node, 2)] if _constant(node, 2) else f"the bias of {node.name} is computed"


def _product(node: onnx_ir.Node, factor: float, depth: int) -> list[Place] | str:
    """Either side of a product takes it: a constant one, else the first that can."""
    constant = [index for index in (0, 1) if _constant(node, index)]
    if constant:
        return [(node, constant[0])]
    return _first(_places(value, node, factor, depth - 1) for value in node.inputs if value)


def _first(found: Iterator[list[Place] | str]) -> list[Place] | str:
    reasons = []
    for item in found:
        if not isinstance(item, str):
            return item
        reasons.append(item)
    return "; ".join(reasons)


def _sum(node: onnx_ir.Node, factor: float, depth: int) -> list[Place] | str:
    """Both sides of a sum take it: one has to be constant."""
    for index in (0, 1):
        other = node.inputs[1 - index]
        if _constant(node, index) and other is not None:
            rest = _places(other, node, factor, depth - 1)
            return rest if isinstance(rest, str) else [(node, index), *rest]
    return f"{node.name} ({node.op_type}) adds a value that isn't constant"
