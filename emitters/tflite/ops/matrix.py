"""Gemm, MatMul and MatMulInteger: FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

import onnx_ir

from converter.ir.attributes import floating, number
from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Quant, Tensor
from emitters.tflite.linear import LAYER
from emitters.tflite.ops import matrix_integers
from emitters.tflite.ops.reals import real, stored
from emitters.tflite.registry import lowers

LARGEST_RANK = 5
"""Axes that BATCH_MATMUL takes; more batch axes become one."""


@lowers("Gemm", integer=True)
def gemm(context: Context, node: onnx_ir.Node) -> None:
    """FULLY_CONNECTED: y = x W^T + b, with W [O, I]; alpha and beta go into constants, a bias that
    isn't one for each output is an ADD of its own."""
    x, output = context.tensor(node.inputs[0]), node.outputs[0]
    weights, bias = context.tensor(node.inputs[1]), context.optional(node, 2)
    if not _is_layer(node, weights, bias):
        x, weights = real(context, x), real(context, weights)
        bias = real(context, bias) if bias is not None else None
    if number(node, "transA", 0):
        x = build.transpose(context, x, [1, 0])
    if not number(node, "transB", 0):
        weights = build.transpose(context, weights, [1, 0])
    weights = _scaled(context, weights, floating(node, "alpha", 1.0))
    bias = _scaled(context, bias, floating(node, "beta", 1.0)) if bias is not None else None
    fits = _fits(weights, bias)
    if bias is not None and fits:
        bias = build.reshape(context, bias, (weights.shape[0],))
    quant = matrix_integers.int8_of(output)
    made = fully_connected(context, x, weights, bias if fits else None, quant if fits else None)
    if not fits and bias is not None:
        made = build.binary(context, "ADD", made, bias)
    context.give(output, stored(context, made, context.dtype(output), output.meta.get(QUANT)))


def _is_layer(node: onnx_ir.Node, weights: Tensor, bias: Tensor | None) -> bool:
    """Whether a Gemm is what FULLY_CONNECTED does, without arithmetic beside it."""
    if floating(node, "alpha", 1.0) != 1.0 or (
        bias is not None and floating(node, "beta", 1.0) != 1.0
    ):
        return False
    outputs = weights.shape[0 if number(node, "transB", 0) else 1]
    return bias is None or bias.shape in ((outputs,), (1, outputs))


def _fits(weights: Tensor, bias: Tensor | None) -> bool:
    return bias is None or bias.shape in ((weights.shape[0],), (1, weights.shape[0]))


def _scaled(context: Context, x: Tensor, factor: float) -> Tensor:
    """``x`` times a number."""
    if factor == 1.0:
        return x
    if x.data is not None:
        return context.constant((x.data * factor).astype(x.data.dtype), x.name)
    return build.binary(context, "MUL", x, build.scalar(context, factor, x))


def fully_connected(
    context: Context, x: Tensor, weights: Tensor, bias: Tensor | None, quant: Quant | None = None
) -> Tensor:
    """A product with weights, and a bias.

    Args:
        context: Where it goes.
        x: [..., I], of float32, or of integers with scales.
        weights: [O, I].
        bias: [O]; None without.
        quant: Scales of an int8 result; the result is real where this is None, or where the kernel
            doesn't take the operands in integers.

    Raises:
        Refused: LiteRT has no product of the type.
    """
    if x.quant is None and x.dtype != DataType.FLOAT:
        raise Refused(f"LiteRT multiplies matrices of float32 or scaled int8, not {x.dtype.name}")
    whole = matrix_integers.layer(context, x, weights, bias) if quant is not None else None
    if whole is None:
        x, weights = real(context, x), real(context, weights)
        bias, quant = real(context, bias) if bias is not None else None, None
    else:
        x, weights, bias = whole
    return context.emit(
        "FULLY_CONNECTED",
        [x, weights, bias],
        (*x.shape[:-1], weights.shape[0]),
        quant=quant,
        options={"fusedActivationFunction": 0, "keepNumDims": x.rank != 2},
    )


@lowers("MatMul", integer=True)
def matmul(context: Context, node: onnx_ir.Node) -> None:
    """FULLY_CONNECTED for a constant matrix, else BATCH_MATMUL; a vector is a matrix of one row, or
    of one column."""
    a, b = context.tensors(node)
    output = node.outputs[0]
    quant = matrix_integers.int8_of(output)
    left, right = a.rank == 1, b.rank == 1
    if left:
        a = build.reshape(context, a, (1, *a.shape))
    if right:
        b = build.reshape(context, b, (*b.shape, 1))
    if b.is_constant and b.rank == 2:
        weights = build.transpose(context, b, [1, 0])
        made = fully_connected(context, a, weights, None, quant)
    else:
        made = batch_matmul(context, a, b, quant)
    shape = list(made.shape)
    if right:
        del shape[-1]
    if left:
        del shape[-1 if right else -2]
    made = build.reshape(context, made, shape)
    context.give(output, stored(context, made, context.dtype(output), output.meta.get(QUANT)))


@lowers("Linear", domain=LAYER, integer=True)
def linear(context: Context, node: onnx_ir.Node) -> None:
    """FULLY_CONNECTED: x W + b, with W [I, O]; see :mod:`emitters.tflite.linear`."""
    x, weights, bias = context.tensors(node)
    output = node.outputs[0]
    weights = build.transpose(context, weights, [1, 0])
    bias = build.reshape(context, bias, (weights.shape[0],))
    made = fully_connected(context, x, weights, bias, matrix_integers.int8_of(output))
    context.give(output, stored(context, made, context.dtype(output), output.meta.get(QUANT)))


def batch_matmul(context: Context, a: Tensor, b: Tensor, quant: Quant | None = None) -> Tensor:
    """The product of matrices in the last two axes.

    Args:
        context: Where it goes.
        a: [..., I, K], of float32, or of integers with scales.
        b: [..., K, O]; the axes before broadcast as numpy's do.
        quant: Scales of an int8 result; the result is real where this is None, or where the kernel
            doesn't take the operands in integers.

    Raises:
        Refused: LiteRT has no product of the type, or of so many axes that are broadcast.
    """
    if a.quant is None and a.dtype != DataType.FLOAT:
        raise Refused(f"LiteRT multiplies matrices of float32 or scaled int8, not {a.dtype.name}")
    pair = matrix_integers.pair(context, a, b) if quant is not None else None
    a, b = pair or (real(context, a), real(context, b))
    quant = quant if pair else None
    batch = build.broadcast_shape(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    options = {"adjX": False, "adjY": False}
    if len(shape) <= LARGEST_RANK:
        return context.emit("BATCH_MATMUL", [a, b], shape, quant=quant, options=options)
    if a.shape[:-2] != b.shape[:-2]:
        raise Refused(f"a product of matrices whose {len(batch)} batch axes are broadcast")
    flat = [build.reshape(context, t, (_merged(batch), *t.shape[-2:])) for t in (a, b)]
    dims = (flat[0].shape[0], *shape[-2:])
    made = context.emit("BATCH_MATMUL", flat, dims, quant=quant, options=options)
    return build.reshape(context, made, shape)


def _merged(dims: tuple[int | str, ...]) -> int | str:
    total = 1
    for dim in dims:
        if not isinstance(dim, int):
            return "*".join(map(str, dims))
        total *= dim
    return total


@lowers("MatMulInteger")
def matmul_integer(context: Context, node: onnx_ir.Node) -> None:
    """The product of integers less their zero points, in float32, whose integers are exact up to
    2^24: refused where sums may be larger."""
    tensors = [context.tensor(value) for value in node.inputs[:2]]
    depth = tensors[0].shape[-1]
    if not isinstance(depth, int) or depth * 255 * 255 >= 1 << 24:
        raise Refused("sums of integers that may exceed 2^24, which float32 doesn't hold exactly")
    real = [build.cast(context, tensor, DataType.FLOAT) for tensor in tensors]
    for place, rank in ((0, -2), (1, -1)):
        zero = context.optional(node, 2 + place)
        if zero is None:
            continue
        point = build.cast(context, zero, DataType.FLOAT)
        if point.rank == 1 and rank == -2 and point.shape[0] != 1:
            point = build.reshape(context, point, (*point.shape, 1))
        real[place] = build.binary(context, "SUB", real[place], point)
    made = batch_matmul(context, real[0], real[1])
    context.give(node.outputs[0], build.cast(context, made, DataType.INT32))
