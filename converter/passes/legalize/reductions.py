"""Reductions as sums of something, and something of those; Size as a product.

    ReduceL1         sum |x|             ReduceLogSum     log(sum x)
    ReduceL2         sqrt(sum x^2)       ReduceSumSquare  sum x^2
    ReduceLogSumExp  log(sum exp(x - m)) + m, m the largest: no exponential overflows
    Size             the product of Shape

Over no axes, where ONNX says so, each element is reduced by itself. Over axes without elements, a
constant stands for ReduceMax, ReduceMin and ReduceLogSumExp: the type's least or greatest number.

Source: the operator pages of these names.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.edit import constant_tensor, integers, static_shape
from converter.ir.facts import REDUCTIONS
from converter.ir.refused import Refused
from converter.passes.legalize.builder import Builder, DataType, Value

_ALONE = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log"}
_ROOTS = {"ReduceL2": "Sqrt", "ReduceLogSum": "Log"}


_OF_NOTHING = {"ReduceLogSumExp": -np.inf, "ReduceMax": -np.inf, "ReduceMin": np.inf}


def is_over_axes(node: onnx_ir.Node) -> bool:
    """Whether a reduction is over axes that there are, and has a result there."""
    x = node.inputs[0]
    scalar = x is not None and x.shape is not None and not len(x.shape)
    return not scalar and not over_nothing(node) and not _has_nothing(node)


def _has_nothing(node: onnx_ir.Node) -> bool:
    x, axes = node.inputs[0], [] if _names_none(node) else integers(node.inputs[1])
    if node.op_type not in _OF_NOTHING or x is None or x.shape is None or axes is None:
        return False
    return any(x.shape[axis] == 0 for axis in axes or range(len(x.shape)))


def over_nothing(node: onnx_ir.Node) -> bool:
    """Whether a reduction is over no axes."""
    return bool(number(node, "noop_with_empty_axes", 0)) and _names_none(node)


def _names_none(node: onnx_ir.Node) -> bool:
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    tensor = constant_tensor(axes)
    return axes is None or (tensor is not None and not tensor.size)


def reduction(b: Builder, node: onnx_ir.Node) -> Value | None:
    x, kind = node.inputs[0], node.op_type
    assert x is not None
    if _has_nothing(node):
        return _least(b, node)
    axes = None if _names_none(node) else b.input(1)
    keep = number(node, "keepdims", 1)
    inner = b.op("Mul", x, x) if kind == "ReduceSumSquare" else x
    if over_nothing(node) or (x.shape is not None and not len(x.shape)):
        return _of_reals(b, _ALONE.get(kind, "Identity"), inner)
    if kind == "ReduceLogSumExp":
        return _log_sum_exp(b, x, axes, keep=bool(keep))
    if kind in ("ReduceL1", "ReduceL2"):
        inner = b.op("Abs", x) if kind == "ReduceL1" else b.op("Mul", x, x)
    total = b.op("ReduceSum", inner, axes, keepdims=keep)
    return _of_reals(b, _ROOTS[kind], total) if kind in _ROOTS else total


def _least(b: Builder, node: onnx_ir.Node) -> Value:
    """What a reduction of no elements gives; of free sizes it is refused."""
    sizes, dtype = static_shape(node.outputs[0]), node.outputs[0].dtype
    if sizes is None or dtype is None or not all(isinstance(size, int) for size in sizes):
        raise Refused("it reduces nothing to sizes that are free", "fix them (--dim)")
    value, numbers = _OF_NOTHING[node.op_type], dtype.numpy()
    if numbers.kind in "iu":
        value = getattr(np.iinfo(numbers), "min" if value < 0 else "max")
    elif numbers.kind == "b":
        value = value > 0
    return b.op("Identity", np.full(sizes, value, numbers))


def _of_reals(b: Builder, op: str, x: Value) -> Value:
    """A function of x; a root or logarithm of integers in float32, and without its fraction, as in
    ONNX Runtime."""
    assert x.dtype is not None
    real = x.dtype.is_floating_point() or op not in _ROOTS.values()
    return b.cast(b.op(op, x if real else b.cast(x, DataType.FLOAT)), x.dtype)


def _log_sum_exp(b: Builder, x: Value, axes: Value | None, *, keep: bool) -> Value:
    largest = b.op("ReduceMax", x, axes)
    total = b.op("ReduceSum", b.op("Exp", b.op("Sub", x, largest)), axes)
    made = b.op("Add", b.op("Log", total), largest)
    return made if keep else b.op("Squeeze", made, axes)


def size(b: Builder, node: onnx_ir.Node) -> Value:
    return b.op("ReduceProd", b.op("Shape", *node.inputs), keepdims=0)


REWRITES = {**dict.fromkeys(REDUCTIONS, reduction), "Size": size}
