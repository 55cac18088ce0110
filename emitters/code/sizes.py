"""Tensors that are shapes as the numbers in them: ``x.reshape(x.shape[0], 12, 32)``, and no tensor
of three integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

import onnx_ir

from converter.ir.edit import constant

LONGEST = 16
"""Elements above which a tensor isn't taken for a shape."""

_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "//"}


@dataclass(frozen=True)
class Dim:
    """The size of a tensor's axis."""

    value: onnx_ir.Value
    axis: int

    @property
    def symbol(self) -> str | None:
        """What it is called in the graph."""
        shape = self.value.shape
        dim = shape[self.axis] if shape is not None else None
        return None if dim is None or isinstance(dim, int) else dim.value


Element = Union[int, Dim, "tuple[Element, str, Element]"]


class Sizes:
    """The elements of tensors, as far as they follow from shapes."""

    def __init__(self, graph: onnx_ir.Graph) -> None:
        self._known: dict[onnx_ir.Value, list[Element] | None] = {}
        for node in graph:
            for output in node.outputs:
                self._known[output] = None
            if len(node.outputs) == 1 and node.domain in ("", "ai.onnx"):
                self._known[node.outputs[0]] = self._given(node)

    def of(self, value: onnx_ir.Value | None) -> list[Element] | None:
        """The elements of an integer tensor of one axis or none; None where they aren't known."""
        if value is None or value.dtype not in (onnx_ir.DataType.INT64, onnx_ir.DataType.INT32):
            return None
        array = constant(value)
        if array is None:
            return self._known.get(value)
        if array.ndim > 1 or array.size > LONGEST:
            return None
        return [int(item) for item in array.reshape(-1)]

    def _given(self, node: onnx_ir.Node) -> list[Element] | None:
        shape = node.outputs[0].shape
        if shape is not None and len(shape) > 1:
            return None
        if node.op_type == "Shape":
            return self._shape(node)
        operands = [self.of(value) for value in node.inputs]
        if not operands or any(item is None for item in operands):
            return None
        known = [item for item in operands if item is not None]
        if node.op_type in ("Identity", "Squeeze", "Unsqueeze"):
            return known[0]
        if node.op_type == "Reshape":
            return known[0] if len(known[1]) <= 1 else None
        if node.op_type == "Cast" and node.outputs[0].dtype in (
            onnx_ir.DataType.INT64,
            onnx_ir.DataType.INT32,
        ):
            return known[0]
        if node.op_type == "Concat":
            return [item for part in known for item in part]
        if node.op_type in ("Gather", "Slice"):
            return _picked(node, known)
        if node.op_type in _SIGNS:
            return _combined(_SIGNS[node.op_type], known)
        return None

    def _shape(self, node: onnx_ir.Node) -> list[Element] | None:
        value = node.inputs[0]
        if value is None or value.shape is None:
            return None
        rank = len(value.shape)
        start, end = (node.attributes.get(name) for name in ("start", "end"))
        axes = range(rank)[
            start.as_int() if start is not None else None : end.as_int()
            if end is not None
            else None
        ]
        sizes = list(value.shape)
        return [int(s) if isinstance(s := sizes[a], int) else Dim(value, a) for a in axes]


def _picked(node: onnx_ir.Node, known: list[list[Element]]) -> list[Element] | None:
    numbers = [[item for item in part if isinstance(item, int)] for part in known[1:]]
    if any(len(a) != len(b) for a, b in zip(numbers, known[1:], strict=True)):
        return None
    if node.op_type == "Gather":
        size = len(known[0])
        if any(not -size <= place < size for place in numbers[0]):
            return None
        return [known[0][place] for place in numbers[0]]
    if any(len(part) != 1 for part in numbers):
        return None
    step = numbers[3][0] if len(numbers) > 3 else 1
    return known[0][numbers[0][0] : numbers[1][0] : step] if step > 0 else None


def _combined(sign: str, known: list[list[Element]]) -> list[Element] | None:
    left, right = known
    if len(left) != len(right):
        if 1 not in (len(left), len(right)):
            return None
        count = max(len(left), len(right))
        left, right = (part * count if len(part) == 1 else part for part in (left, right))
    return [_result(a, sign, b) for a, b in zip(left, right, strict=True)]


def _result(a: Element, sign: str, b: Element) -> Element:
    if isinstance(a, int) and isinstance(b, int):
        if sign == "//":
            return int(a / b) if b else (a, sign, b)
        return {"+": a + b, "-": a - b, "*": a * b}[sign]
    if sign in "*//" and b == 1:
        return a
    if sign == "*" and a == 1:
        return b
    return (a, sign, b)
