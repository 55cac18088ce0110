"""Gemm and MatMul: FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.tflite import build
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import Quant, Tensor
from emitters.tflite.registry import Refused, lowers


@lowers("Gemm", integer=True)
def gemm(context: Context, node: onnx_ir.Node) -> None:
    """FULLY_CONNECTED: y = x W^T + b, with W [O, I]; alpha and beta go into constants, a bias that
    isn't one for each output is an ADD of its own."""
    x = context.tensor(node.inputs[0])
    if _int(node, "transA"):
        x = build.transpose(context, x, [1, 0])
    weights, bias = context.tensor(node.inputs[1]), context.optional(node, 2)
    if not _int(node, "transB"):
        weights = build.transpose(context, weights, [1, 0])
    weights = _scaled(context, weights, _float(node, "alpha"))
    bias = _scaled(context, bias, _float(node, "beta")) if bias is not None else None
    fits = bias is None or bias.shape in ((weights.shape[0],), (1, weights.shape[0]))
    if bias is not None and fits:
        bias = build.reshape(context, bias, (weights.shape[0],))
    made = fully_connected(context, node, x, weights, bias if fits else None)
    if not fits and bias is not None:
        made = build.binary(context, "ADD", made, bias)
    context.give(node.outputs[0], made)


def _scaled(context: Context, x: Tensor, factor: float) -> Tensor:
    """``x`` times a number."""
    if factor == 1.0:
        return x
    if x.quant is not None:
        raise Refused("a Gemm in integers with alpha or beta")
    if x.data is not None:
        return context.constant((x.data * factor).astype(x.data.dtype), x.name)
    return build.binary(context, "MUL", x, build.scalar(context, factor, x))


def _int(node: onnx_ir.Node, name: str) -> int:
    attribute = node.attributes.get(name)
    return attribute.as_int() if attribute is not None else 0


def _float(node: onnx_ir.Node, name: str) -> float:
    attribute = node.attributes.get(name)
    return attribute.as_float() if attribute is not None else 1.0


def fully_connected(
    context: Context, node: onnx_ir.Node, x: Tensor, weights: Tensor, bias: Tensor | None
) -> Tensor:
    """``x`` [..., I] times weights [O, I], and a bias [O]."""
    if bias is None and x.quant is not None and weights.quant is not None:
        scale = (x.quant.scale[0] * weights.quant.scale).astype(np.float32)
        axis = 0 if scale.size > 1 else None
        quant = Quant(scale, np.zeros(scale.shape, np.int64), axis)
        zeros = np.zeros(int(weights.shape[0]), np.int32)
        bias = context.constant(zeros, f"{node.name}_bias", quant=quant)
    return context.emit(
        "FULLY_CONNECTED",
        [x, weights, bias],
        (*x.shape[:-1], weights.shape[0]),
        quant=node.outputs[0].meta.get(QUANT),
        options={"fusedActivationFunction": 0, "keepNumDims": x.rank != 2},
    )


@lowers("MatMul")
def matmul(context: Context, node: onnx_ir.Node) -> None:
    """BATCH_MATMUL, or FULLY_CONNECTED for a constant matrix."""
    a = context.tensor(node.inputs[0])
    weights = context.array(node.inputs[1])
    if weights is not None and weights.ndim == 2 and a.rank > 1:
        stored = context.constant(weights.T, _name(node))
        context.give(node.outputs[0], fully_connected(context, node, a, stored, None))
        return
    b = context.tensor(node.inputs[1])
    if a.rank < 2 or b.rank < 2:
        raise Refused("a MatMul of vectors")
    batch = build.broadcast_shape(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    made = context.emit("BATCH_MATMUL", [a, b], shape, options={"adjX": False, "adjY": False})
    context.give(node.outputs[0], made)


def _name(node: onnx_ir.Node) -> str:
    """What the weights are called."""
    weights = node.inputs[1]
    return (weights.name if weights is not None else None) or f"{node.name}_weights"
