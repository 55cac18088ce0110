"""MatMul, Gemm and MatMulInteger: ``linear`` and ``matmul``.

A matrix that is constant is the weight of a ``linear``, which passes of coremltools join with what
is added behind it. ``linear`` takes its weight as [outputs, inputs], and up to three axes.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import floating, number
from converter.ir.refused import Refused
from emitters.coreml.context import Context, Var
from emitters.coreml.ops.quantization import is_packed, packed
from emitters.coreml.registry import lowers
from emitters.coreml.types import Array

LINEAR_RANK = 3
"""Axes that ``linear`` takes."""


@lowers("MatMul")
def matmul(context: Context, node: onnx_ir.Node) -> None:
    """A constant matrix is a weight; a vector is a matrix of one row, or of one column."""
    value = node.inputs[1]
    weight, x = context.array(value), context.var(node.inputs[0])
    if weight is not None and weight.ndim == 2 and 2 <= len(x.shape) <= LINEAR_RANK:
        made = _linear(context, x, weight.T, None, value)
    elif len(x.shape) in (2, LINEAR_RANK) and _is_matrix(value) and is_packed(context, value):
        turned = context.program.turned
        kept = turned[value] if value in turned else packed(context, value, (1, 0))
        made = context.op("linear", x=x, weight=kept)
    else:
        made = product(context, x, context.var(value))
    context.give(node.outputs[0], made)


def product(context: Context, a: Var, b: Var, **transposed: bool) -> Var:
    """The product of matrices in the last two axes, as numpy's ``matmul``.

    Args:
        context: Where it goes.
        a: At least one axis.
        b: Of the same type, at least one axis.
        transposed: ``transpose_x``, ``transpose_y``.
    """
    row, column = len(a.shape) == 1, len(b.shape) == 1
    if row:
        a = context.op("expand_dims", x=a, axes=[0])
    if column:
        b = context.op("expand_dims", x=b, axes=[1])
    (a, first), (b, second) = _before(a), _before(b)
    made = context.op(
        "matmul",
        x=a,
        y=b,
        transpose_x=first != transposed.get("transpose_x", False),
        transpose_y=second != transposed.get("transpose_y", False),
    )
    axes = [-1] * column + [-2] * row
    return context.op("squeeze", x=made, axes=axes) if axes else made


def _before(x: Var) -> tuple[Var, bool]:
    """What the last two axes of a variable were transposed of, and whether they were."""
    rank = len(x.shape)
    if x.val is not None or x.op is None or x.op.op_type != "transpose":
        return x, False
    perm = [axis % rank for axis in x.op.perm.val.tolist()]
    turned = perm == [*range(rank - 2), rank - 1, rank - 2]
    return (x.op.x, True) if turned else (x, False)


def _is_matrix(value: onnx_ir.Value | None) -> bool:
    return value is not None and value.shape is not None and len(value.shape) == 2


def _linear(
    context: Context, x: Var, weight: Array, bias: Array | None, value: onnx_ir.Value | None
) -> Var:
    """``x`` [..., I] times weight [O, I], and a bias [O]."""
    name = value.name if value is not None and value.name else ""
    kept = context.const(weight, like=name)
    added = None if bias is None else context.const(bias)
    inputs = {} if added is None else {"bias": added}
    return context.op("linear", x=x, weight=kept, **inputs)


# -- Gemm --------------------------------------------------------------------------------


@lowers("Gemm")
def gemm(context: Context, node: onnx_ir.Node) -> None:
    """alpha A B + beta C: a ``linear`` where B is constant, with alpha in its weight, and C its
    bias where C is a number for each output; else a product, and what is added."""
    made, whole = _products(context, node)
    if not whole:
        alpha = floating(node, "alpha", 1.0)
        if alpha != 1.0:
            made = context.op("mul", x=made, y=_factor(context, node, alpha, made))
        added = _added(context, node)
        if added is not None:
            made = context.op("add", x=made, y=added)
    context.give(node.outputs[0], made)


def _products(context: Context, node: onnx_ir.Node) -> tuple[Var, bool]:
    """A B, and whether alpha and C are in it already."""
    x, value = context.var(node.inputs[0]), node.inputs[1]
    turned = bool(number(node, "transB", 0))
    weight, bias = context.array(value), _bias(context, node)
    alpha = floating(node, "alpha", 1.0)
    if not number(node, "transA", 0) and alpha == 1.0 and is_packed(context, value):
        kept = packed(context, value, None if turned else (1, 0))
        return context.op("linear", x=x, weight=kept), False
    if weight is None or weight.dtype.kind != "f" or bias is None:
        flags = {"transpose_x": bool(number(node, "transA", 0)), "transpose_y": turned}
        return context.op("matmul", x=x, y=context.var(value), **flags), False
    if number(node, "transA", 0):
        x = context.op("transpose", x=x, perm=[1, 0])
    weight = weight if turned else weight.T
    if alpha != 1.0:
        weight = (weight.astype(np.float32) * np.float32(alpha)).astype(weight.dtype)
    return _linear(context, x, weight, bias, value), True


def _bias(context: Context, node: onnx_ir.Node) -> Array | None:
    """beta C as a number for each output; None where it isn't that. Zeros where there is no C."""
    weight = context.array(node.inputs[1])
    if weight is None:
        return None
    outputs = weight.shape[0 if number(node, "transB", 0) else 1]
    if len(node.inputs) < 3 or node.inputs[2] is None:
        return np.zeros(outputs, weight.dtype)
    added = context.array(node.inputs[2])
    if added is None or added.size not in (1, outputs) or added.shape[:-1] not in ((), (1,)):
        return None
    scaled = added.astype(np.float32) * np.float32(floating(node, "beta", 1.0))
    return np.broadcast_to(scaled.reshape(-1), (outputs,)).astype(weight.dtype)


def _added(context: Context, node: onnx_ir.Node) -> Var | None:
    """beta C, which broadcasts to the result."""
    added, beta = context.optional(node, 2), floating(node, "beta", 1.0)
    if added is None or beta == 1.0:
        return added
    return context.op("mul", x=added, y=_factor(context, node, beta, added))


def _factor(context: Context, node: onnx_ir.Node, factor: float, like: Var) -> Var:
    if context.type_of(like) == "int32":
        raise Refused(f"a {node.op_type} of integers times {factor}")
    return context.number(factor, like)


# -- integers ----------------------------------------------------------------------------


@lowers("MatMulInteger")
def matmul_integer(context: Context, node: onnx_ir.Node) -> None:
    """The product of int32, which holds both and their sums, less their zero points: of A one for
    each row, of B one for each column."""
    parts = []
    for place, value in enumerate(node.inputs[:2]):
        x, zero = context.var(value), context.optional(node, 2 + place)
        if zero is not None:
            if place == 0 and len(zero.shape) == 1 and zero.shape[0] != 1:
                zero = context.op("expand_dims", x=zero, axes=[1])
            x = context.op("sub", x=x, y=zero)
        parts.append(x)
    context.give(node.outputs[0], product(context, *parts))
