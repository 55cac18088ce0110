"""Removes nodes that give back what they were given, bit for bit.

The cases, in opset 20's terms; ``x`` is what takes the node's place:

1.  Identity(x)
2.  Dropout(x) whose mask is unused and whose training_mode is absent or false
3.  Cast(x) and CastLike(x, y) to the type that x has
4.  Transpose(x) by the identity
5.  Reshape(x, s): s is x's own shape: each of its numbers is 0 or x's own, and at most one -1
6.  Expand(x, s) and Tile(x, r): only ones, and no more of them than x has dimensions
7.  Concat, Sum, Max, Min and Mean of one input; Split into one output
8.  Slice(x): every axis from its start to its end by 1
9.  Pad(x) by nothing
10. Flatten(x) of two dimensions at axis 1
11. Clip(x) without bounds
12. Mul(x, 1), Div(x, 1), Pow(x, 1), Sub(x, 0), and Add(x, 0) of integers, where the constant
    adds no dimension. Add(x, 0.0) turns -0.0 into 0.0 and stays; so does +1e-10, which is
    all that keeps a Log from infinity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir
from onnx_ir.passes import InPlacePass, PassResult

from converter.ir.edit import (
    all_nodes,
    attribute_int,
    attribute_ints,
    bypass,
    constant,
    integers,
    static_shape,
)

END = 2**31 - 1
"""What exporters write for "to the end" of an axis, or more."""


class RemoveNoOps(InPlacePass):
    """Removes the nodes that the module's cases describe."""

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Goes over all nodes once."""
        modified = False
        for node in all_nodes(model):
            rule = _RULES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
            if rule is None or not node.inputs or node.inputs[0] is None:
                continue
            if len(node.outputs) > 1 and any(out.uses() for out in node.outputs[1:]):
                continue
            if any(out.is_graph_output() for out in node.outputs[1:]):
                continue
            if rule(node):
                modified |= bypass(node, node.inputs[0])
        return PassResult(model, modified)


def _always(node: onnx_ir.Node) -> bool:
    return True


def _dropout(node: onnx_ir.Node) -> bool:
    mode = node.inputs[2] if len(node.inputs) > 2 else None
    if mode is None:
        return True
    value = constant(mode)
    return value is not None and not value.any()


def _cast(node: onnx_ir.Node) -> bool:
    source = node.inputs[0]
    target = attribute_int(node, "to", 0)
    return source is not None and source.dtype is not None and source.dtype == target


def _cast_like(node: onnx_ir.Node) -> bool:
    source, like = node.inputs[0], node.inputs[1]
    if source is None or like is None or source.dtype is None:
        return False
    return source.dtype == like.dtype


def _transpose(node: onnx_ir.Node) -> bool:
    perm = attribute_ints(node, "perm")
    return perm is not None and perm == list(range(len(perm)))


def _reshape(node: onnx_ir.Node) -> bool:
    shape, target = static_shape(node.inputs[0]), integers(node.inputs[1])
    if shape is None or target is None or len(shape) != len(target):
        return False
    if 0 in target and attribute_int(node, "allowzero", 0) != 0:
        return False
    pairs = zip(shape, target, strict=True)
    return all(new in (0, -1, old) for old, new in pairs) and target.count(-1) <= 1


def _expand(node: onnx_ir.Node) -> bool:
    shape, target = static_shape(node.inputs[0]), integers(node.inputs[1])
    if shape is None or target is None or len(target) > len(shape):
        return False
    return all(size == 1 for size in target)


def _variadic(node: onnx_ir.Node) -> bool:
    return len(node.inputs) == 1


def _split(node: onnx_ir.Node) -> bool:
    return len(node.outputs) == 1


def _slice(node: onnx_ir.Node) -> bool:
    if len(node.inputs) < 3:
        return False
    starts, ends = integers(node.inputs[1]), integers(node.inputs[2])
    if starts is None or ends is None:
        return False
    axes = integers(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3] else None
    if len(node.inputs) > 3 and node.inputs[3] is not None and axes is None:
        return False
    if len(node.inputs) > 4 and node.inputs[4] is not None:
        steps = integers(node.inputs[4])
        if steps is None or any(step != 1 for step in steps):
            return False
    shape = static_shape(node.inputs[0]) or []
    axes = axes if axes is not None else list(range(len(ends)))
    return all(_is_whole(shape, *each) for each in zip(axes, starts, ends, strict=True))


def _is_whole(shape: list[int | str | None], axis: int, start: int, end: int) -> bool:
    """Whether an axis is taken from its start to its end."""
    if start == 0 and end >= END:
        return True
    size = shape[axis] if -len(shape) <= axis < len(shape) else None
    return isinstance(size, int) and (start == 0 or start <= -size) and end >= size


def _pad(node: onnx_ir.Node) -> bool:
    pads = integers(node.inputs[1]) if len(node.inputs) > 1 else None
    return pads is not None and not any(pads)


def _flatten(node: onnx_ir.Node) -> bool:
    shape = static_shape(node.inputs[0])
    return shape is not None and len(shape) == 2 and attribute_int(node, "axis", 1) in (1, -1)


def _clip(node: onnx_ir.Node) -> bool:
    return not any(node.inputs[1:]) and not node.attributes


def _neutral(element: int, kinds: str) -> Callable[[onnx_ir.Node], bool]:
    """A rule for ``op(x, element)``, for constants of these numpy kinds."""

    def rule(node: onnx_ir.Node) -> bool:
        value, source = constant(node.inputs[1]), node.inputs[0]
        if value is None or source is None or source.shape is None or value.dtype.kind not in kinds:
            return False
        if value.size != 1 or value.ndim > len(source.shape):
            return False
        same_type = node.inputs[1] is not None and node.inputs[1].dtype == source.dtype
        return same_type and bool(np.all(value == element)) and not np.signbit(value).any()

    return rule


_RULES: dict[str, Callable[[onnx_ir.Node], bool]] = {
    "Identity": _always,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Expand": _expand,
    "Tile": _expand,
    "Concat": _variadic,
    "Sum": _variadic,
    "Max": _variadic,
    "Min": _variadic,
    "Mean": _variadic,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Flatten": _flatten,
    "Clip": _clip,
    "Mul": _neutral(1, "fiu"),
    "Div": _neutral(1, "fiu"),
    "Pow": _neutral(1, "fiu"),
    "Sub": _neutral(0, "fiu"),
    "Add": _neutral(0, "iu"),
}
