"""What a Pad does, and where nothing can be below zero, for the rules of :mod:`.fuse_padding`."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir

from converter.ir.edit import integers, static_shape
from converter.ir.facts import EXTREMES, MEANS, MOVES, NOT_NEGATIVE
from converter.passes.fuse.patterns import input_of, scalar

_KEEPS_SIGN = MOVES | EXTREMES | MEANS | {"ReduceProd", "ReduceSum"}


@dataclass(frozen=True)
class Padding:
    """What a Pad node puts around each axis.

    Attributes:
        begin, end: Elements, by axis.
        value: What they are.
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    value: float

    @property
    def spatial(self) -> list[int]:
        """As the attribute ``pads`` of a convolution: begins, then ends, from axis 2."""
        return [*self.begin[2:], *self.end[2:]]


def read_padding(node: onnx_ir.Node) -> Padding | str:
    """What a Pad does, or why that isn't known."""
    shape, source = static_shape(node.inputs[0]), node.inputs[0]
    if node.attributes.get_string("mode", "constant") != "constant":
        return "it doesn't pad with a constant"
    if shape is None or source is None or source.dtype is None:
        return "the number of axes of the padded tensor isn't known"
    amounts = integers(input_of(node, 1))
    axes = list(range(len(shape)))
    if input_of(node, 3) is not None:
        listed = integers(input_of(node, 3))
        if listed is None:
            return "its axes aren't constant"
        axes = [axis % len(shape) for axis in listed]
    if amounts is None or len(amounts) != 2 * len(axes):
        return "its pads aren't constant"
    value = scalar(node.inputs[2]) if input_of(node, 2) is not None else 0.0
    if value is None:
        return "the padding value isn't constant"
    by_axis = dict(zip(axes, zip(amounts, amounts[len(axes) :], strict=False), strict=True))
    pairs = [by_axis.get(axis, (0, 0)) for axis in range(len(shape))]
    return Padding(tuple(a for a, _ in pairs), tuple(b for _, b in pairs), value)


def not_negative(value: onnx_ir.Value | None, depth: int = 20) -> bool:
    """Whether the graph itself says that no element is below zero (or NaN is all that is)."""
    node = value.producer() if value is not None else None
    if node is None or depth == 0 or node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in NOT_NEGATIVE:
        return True
    if node.op_type == "Clip":
        low = scalar(input_of(node, 1))
        return low is not None and low >= 0
    if node.op_type in _KEEPS_SIGN:
        return not_negative(node.inputs[0], depth - 1)
    if node.op_type in ("Concat", "Add", "Mul"):
        return all(not_negative(item, depth - 1) for item in node.inputs)
    return False
