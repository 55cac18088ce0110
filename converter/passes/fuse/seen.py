"""Rows of attention's mask that are known to let something through.

    Where(seen, attention, 0)  ->  attention

``seen`` is ``Cast(ReduceMax(Cast(mask), -1))`` of booleans, or ``ReduceMax(mask, -1) > -inf`` of
floats. It is true whatever the model is fed where in each row of the mask

1. a constant has an element that lets through, or all of it does;
2. places are compared: ``0, 1, 2... <= place``, for which place 0 is enough (a causal mask);
3. what is hidden is a triangle above the diagonal (Trilu);
4. it is a sum or product of numbers that are all finite, such as ``(1 - cast(mask)) * -1e9``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import (
    attribute_int,
    constant_tensor,
    integers,
    is_op,
    static_shape,
)
from converter.ir.facts import MATRIX_PRODUCTS, MOVES
from converter.passes.fuse.patterns import Edit, Rule, producer

Array = np.ndarray[Any, Any]

LARGEST = 1 << 20
"""Elements above which a constant isn't looked into."""

_DEPTH = 12
_FLOATS = {getattr(onnx_ir.DataType, name) for name in ("FLOAT", "FLOAT16", "BFLOAT16")}
_WHOLE = {getattr(onnx_ir.DataType, name) for name in ("BOOL", "INT32", "INT64", "UINT8")}
_KEEPS = ("Expand", "Identity", "Reshape", "Unsqueeze")
_UNIFORM = ("Expand", "Identity", "Reshape", "Tile", "Transpose", "Unsqueeze")


def small_array(value: onnx_ir.Value | None) -> Array | None:
    """A constant that isn't large, empty, or of strings."""
    tensor = constant_tensor(value)
    if tensor is None or not 0 < tensor.size <= LARGEST:
        return None
    return None if tensor.dtype == onnx_ir.DataType.STRING else tensor.numpy()


@dataclass(frozen=True)
class Chosen:
    """A Where, and what it chooses by: in each row of ``mask``, where there is one."""

    where: onnx_ir.Node
    test: onnx_ir.Value
    mask: onnx_ir.Value | None


class SeenRows(Rule[Chosen]):
    """The module's rule."""

    name = "attention-of-rows-that-see"
    roots = frozenset({"Where"})

    def pattern(self, node: onnx_ir.Node) -> Chosen | None:
        """A choice by a constant, or by what is the largest of a row."""
        test = node.inputs[0]
        if test is None:
            return None
        if constant_tensor(test) is not None:
            return Chosen(node, test, None)
        largest = producer(test, "Cast", "Greater")
        reduced = producer(largest.inputs[0], "ReduceMax") if largest is not None else None
        if largest is None or reduced is None or integers(_axes(reduced)) != [-1]:
            return None
        mask = reduced.inputs[0]
        if is_op(largest, "Greater"):
            return Chosen(node, test, mask) if _is_lowest(largest.inputs[1]) else None
        cast = producer(mask, "Cast")
        return Chosen(node, test, cast.inputs[0]) if cast is not None else None

    def check(self, match: Chosen) -> str:
        """Whether each row lets something through, and the Where makes nothing larger."""
        if match.mask is None:
            array = small_array(match.test)
            seen = array is not None and bool(array.all())
        else:
            seen = sees(match.mask)
        if not seen:
            return "a row may be masked wholly"
        if static_shape(match.where.outputs[0]) != static_shape(match.where.inputs[1]):
            return "the result may be larger than the chosen tensor"
        return ""

    def rewrite(self, match: Chosen, edit: Edit) -> None:
        """What is chosen always."""
        chosen = match.where.inputs[1]
        assert chosen is not None
        edit.bypass(match.where, chosen)


def _axes(node: onnx_ir.Node) -> onnx_ir.Value | None:
    return node.inputs[1] if len(node.inputs) > 1 else None


def _is_lowest(value: onnx_ir.Value | None) -> bool:
    array = small_array(value)
    return array is not None and array.dtype.kind == "f" and bool((array == -np.inf).all())


def sees(mask: onnx_ir.Value | None, depth: int = 0) -> bool:
    """Whether each row (along the last axis) has an element that is True, or above -inf."""
    array = small_array(mask)
    if array is not None:
        return bool(np.atleast_1d(_lets_through(array)).any(axis=-1).all())
    node = mask.producer() if mask is not None else None
    if node is None or depth > _DEPTH:
        return False
    if is_op(node, *_KEEPS):
        kept = is_op(node, "Identity", "Expand") or _keeps_rows(node)
        return (kept and sees(node.inputs[0], depth + 1)) or _all_true(mask)
    if is_op(node, "Or"):
        return any(sees(item, depth + 1) for item in node.inputs)
    if is_op(node, "And"):
        one, other = node.inputs
        return (_all_true(one) and sees(other, depth + 1)) or (
            _all_true(other) and sees(one, depth + 1)
        )
    if is_op(node, "LessOrEqual", "GreaterOrEqual"):
        places, limit = node.inputs if node.op_type == "LessOrEqual" else node.inputs[::-1]
        return _counts_along_rows(places) and _is_natural(limit)
    if is_op(node, "Trilu") and _hides_above(node):
        return True
    return mask is not None and mask.dtype in _FLOATS and _finite(mask)


def _finite(value: onnx_ir.Value | None, depth: int = 0) -> bool:
    """Whether each element of floats is above -inf, unless a product overflows."""
    array = small_array(value)
    if array is not None:
        return array.dtype.kind in "fiu" and bool(np.isfinite(array).all())
    node = value.producer() if value is not None else None
    if node is None or depth > _DEPTH:
        return False
    if is_op(node, "Cast"):  # of integers; of another float it is what that is
        kind = node.inputs[0].dtype if node.inputs[0] is not None else None
        return kind in _WHOLE or _finite(node.inputs[0], depth + 1)
    if is_op(node, *MATRIX_PRODUCTS):
        return True
    inputs = node.inputs[:1] if is_op(node, *MOVES) else node.inputs
    inputs = node.inputs[1:] if is_op(node, "Where") else inputs
    told = is_op(node, "Add", "Mul", "Sub", "Where", "Concat", *MOVES)
    return told and all(_finite(item, depth + 1) for item in inputs)


def _lets_through(array: Array) -> Array:
    """Where it does; nowhere in integers, of which a mask is made in many ways."""
    if array.dtype.kind == "f":
        return array > -np.inf
    return array if array.dtype.kind == "b" else np.zeros(array.shape, bool)


def _all_true(value: onnx_ir.Value | None, depth: int = 0) -> bool:
    """Whether each element is."""
    array = small_array(value)
    if array is not None:
        return bool(_lets_through(array).all())
    node = value.producer() if value is not None else None
    spreads = node is not None and depth <= _DEPTH and is_op(node, *_UNIFORM)
    return spreads and node is not None and _all_true(node.inputs[0], depth + 1)


def _keeps_rows(node: onnx_ir.Node) -> bool:
    """Whether a Reshape or Unsqueeze leaves the last axis as it is."""
    before, after = (static_shape(value) for value in (node.inputs[0], node.outputs[0]))
    if not before or not after or before[-1] is None:
        return False
    return before[-1] == after[-1]


def _counts_along_rows(value: onnx_ir.Value | None, depth: int = 0) -> bool:
    """Whether the first element of each row is 0: 0, 1, 2... along the last axis alone."""
    array = small_array(value)
    if array is not None:
        return array.dtype.kind in "iu" and array.ndim > 0 and bool((array[..., 0] == 0).all())
    node = value.producer() if value is not None else None
    if node is None or depth > _DEPTH:
        return False
    if is_op(node, "Range"):
        return _number(node.inputs[0]) == 0
    kept = is_op(node, "Cast") or (is_op(node, *_KEEPS) and _keeps_rows(node))
    return kept and _counts_along_rows(node.inputs[0], depth + 1)


def _is_natural(value: onnx_ir.Value | None, depth: int = 0) -> bool:
    """Whether no element is below 0."""
    array = small_array(value)
    if array is not None:
        return array.dtype.kind in "iu" and bool((array >= 0).all())
    node = value.producer() if value is not None else None
    if node is None or depth > _DEPTH:
        return False
    if is_op(node, "Shape", "Size"):
        return True
    if is_op(node, "Range"):
        return _is_natural(node.inputs[0], depth + 1) and (_number(node.inputs[2]) or 0) > 0
    if is_op(node, "Add", "Mul"):
        return all(_is_natural(item, depth + 1) for item in node.inputs)
    moved = is_op(node, *_KEEPS, "Cast", "Transpose", "Gather", "Slice", "Squeeze")
    return moved and _is_natural(node.inputs[0], depth + 1)


def _number(value: onnx_ir.Value | None) -> int | None:
    found = integers(value)
    return found[0] if found is not None and len(found) == 1 else None


def _hides_above(node: onnx_ir.Node) -> bool:
    """Whether a Trilu leaves 0 at the first place of each row."""
    above = _number(node.inputs[1]) if len(node.inputs) > 1 else 0
    return attribute_int(node, "upper", 1) == 1 and above is not None and above > 0
