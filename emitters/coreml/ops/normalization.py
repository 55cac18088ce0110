"""Normalizations over channels, groups and layers; LpNormalization and
MeanVarianceNormalization are written as simpler operators before (:mod:`emitters.lowering`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir

from converter.ir.attributes import floating, number
from converter.ir.edit import constant_tensor
from converter.ir.refused import Refused
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var
from emitters.coreml.registry import lowers
from emitters.coreml.types import NUMPY, Array

_FLOATS = (onnx_ir.DataType.FLOAT16, onnx_ir.DataType.FLOAT)

# -- BatchNormalization ------------------------------------------------------------------


def _is_batch_norm(node: onnx_ir.Node, target: int) -> bool:
    """Whether batch_norm takes it: [N, C] and one to three spatial axes, constants of its type."""
    x, *numbers = node.inputs
    if x is None or x.shape is None or x.dtype not in _FLOATS or number(node, "training_mode", 0):
        return False
    known = [constant_tensor(value) for value in numbers]
    fits = all(tensor is not None and tensor.dtype == x.dtype for tensor in known)
    return fits and 3 <= len(x.shape) <= 5


@lowers("BatchNormalization", legal=_is_batch_norm)
def batch_normalization(context: Context, node: onnx_ir.Node) -> None:
    x = context.var(node.inputs[0])
    kind = NUMPY[context.type_of(x)]
    numbers = [context.array(value) for value in node.inputs[1:5]]
    arrays = _as(kind, [array for array in numbers if array is not None])
    parts = dict(zip(("gamma", "beta", "mean", "variance"), arrays, strict=True))
    epsilon = kind(floating(node, "epsilon", 1e-5))
    context.give(node.outputs[0], context.op("batch_norm", x=x, epsilon=epsilon, **parts))


def _as(kind: Any, numbers: Sequence[Array]) -> list[Array]:
    return [array.astype(kind) for array in numbers]


def _column(context: Context, numbers: Var, x: Var) -> Var:
    """A number for each channel of ``x`` [N, C, ...], in its type: [C, 1...]."""
    axes = list(range(1, len(x.shape) - 1))
    numbers = context.cast(numbers, context.type_of(x))
    return context.op("expand_dims", x=numbers, axes=axes) if axes else numbers


# -- InstanceNormalization, GroupNormalization -------------------------------------------


@lowers("InstanceNormalization")
def instance_normalization(context: Context, node: onnx_ir.Node) -> None:
    """instance_norm, of one or two spatial axes; three are one to it."""
    x = context.var(node.inputs[0])
    numbers = [context.array(value) for value in node.inputs[1:3]]
    known = [array for array in numbers if array is not None]
    kind, rank = NUMPY[context.type_of(x)], len(x.shape)
    if len(known) < 2 or rank < 3:
        made = _standardized(context, x, range(2, rank), floating(node, "epsilon", 1e-5))
        context.give(node.outputs[0], _affine(context, node, made))
        return
    sizes = sizing.sizes(context, x)
    flat = x if rank < 5 else _flat(context, x, 2)
    made = context.op(
        "instance_norm",
        x=flat,
        gamma=known[0].astype(kind),
        beta=known[1].astype(kind),
        epsilon=kind(floating(node, "epsilon", 1e-5)),
    )
    context.give(node.outputs[0], made if rank < 5 else sizing.reshape(context, made, sizes))


def _flat(context: Context, x: Var, axes: int) -> Var:
    """All axes from one on as one."""
    sizes = sizing.sizes(context, x)
    return sizing.reshape(context, x, [*sizes[:axes], sizing.product(context, sizes[axes:])])


def _standardized(context: Context, x: Var, axes: Sequence[int], epsilon: float) -> Var:
    """(x - mean) / sqrt(variance + epsilon) over axes: layer_norm without factors."""
    if not axes:
        return context.op("sub", x=x, y=x)
    kind = NUMPY[context.type_of(x)]
    return context.op("layer_norm", x=x, axes=list(axes), epsilon=kind(epsilon))


def _affine(context: Context, node: onnx_ir.Node, x: Var) -> Var:
    """``x`` [N, C, ...] times a number for each channel, and another added."""
    scale, bias = (_column(context, context.var(value), x) for value in node.inputs[1:3])
    return context.op("add", x=context.op("mul", x=x, y=scale), y=bias)


@lowers("GroupNormalization")
def group_normalization(context: Context, node: onnx_ir.Node) -> None:
    """layer_norm of [N, groups, the rest]. Opset 18 has a scale for each group, 21 for each
    channel: told apart by their number."""
    x, groups = context.var(node.inputs[0]), number(node, "num_groups", 1)
    sizes = sizing.sizes(context, x)
    rest = sizing.compute(context, "floor_div", sizing.product(context, sizes[1:]), groups)
    grouped = sizing.reshape(context, x, [sizes[0], groups, rest])
    made = _standardized(context, grouped, [2], floating(node, "epsilon", 1e-5))
    count = context.var(node.inputs[1]).shape[0]
    if count == groups and count != x.shape[1]:
        made = sizing.reshape(context, _affine(context, node, made), sizes)
    else:
        made = _affine(context, node, sizing.reshape(context, made, sizes))
    context.give(node.outputs[0], made)


# -- LayerNormalization ------------------------------------------------------------------


@lowers("LayerNormalization")
def layer_normalization(context: Context, node: onnx_ir.Node) -> None:
    """layer_norm over the axes from ``axis`` on, with constants of their shape; other factors are
    applied afterwards. Mean and inverse deviation are computed where they are wanted."""
    x = context.var(node.inputs[0])
    rank = len(x.shape)
    axes = list(range(number(node, "axis", -1) % rank, rank))
    kind, epsilon = context.type_of(x), floating(node, "epsilon", 1e-5)
    arrays = [context.array(value) for value in node.inputs[1:3]]
    own = sizing.numbers([x.shape[axis] for axis in axes])
    fits = own is not None and all(a is not None and list(a.shape) == own for a in arrays)
    factors = _as(NUMPY[kind], [a for a in arrays if a is not None and fits])
    made = context.op(
        "layer_norm",
        x=x,
        axes=axes,
        epsilon=NUMPY[kind](epsilon),
        **dict(zip(("gamma", "beta"), factors, strict=False)),
    )
    if not fits:
        factor, shift = context.var(node.inputs[1]), context.optional(node, 2)
        made = context.op("mul", x=made, y=context.cast(factor, kind))
        made = made if shift is None else context.op("add", x=made, y=context.cast(shift, kind))
    context.give(node.outputs[0], made)
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        _give_statistics(context, node, x, axes, epsilon)


def _give_statistics(
    context: Context, node: onnx_ir.Node, x: Var, axes: list[int], epsilon: float
) -> None:
    x = context.cast(x, "fp32") if number(node, "stash_type", 1) == 1 else x
    mean = context.op("reduce_mean", x=x, axes=axes, keep_dims=True)
    centred = context.op("sub", x=x, y=mean)
    square = context.op("mul", x=centred, y=centred)
    variance = context.op("reduce_mean", x=square, axes=axes, keep_dims=True)
    raised = context.op("add", x=variance, y=context.number(epsilon, x))
    one = context.number(1.0, x)
    inverse = context.op("real_div", x=one, y=context.op("sqrt", x=raised))
    for output, var in zip(node.outputs[1:], (mean, inverse), strict=False):
        context.give(output, var)


# -- LRN ---------------------------------------------------------------------------------


@lowers("LRN")
def local_response(context: Context, node: onnx_ir.Node) -> None:
    """x / (bias + alpha * mean)^beta, the mean being of the squares of ``size`` channels around,
    of zeros beyond the first and last: local_response_norm where MIL has it, of three or four axes
    and an odd size; else avg_pool along channels."""
    x, size = context.var(node.inputs[0]), number(node, "size", 1)
    kind = NUMPY[context.type_of(x)]
    names = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    alpha, beta, bias = (kind(floating(node, name, usual)) for name, usual in names.items())
    if size % 2 and len(x.shape) in (3, 4):
        made = context.op("local_response_norm", x=x, size=size, alpha=alpha, beta=beta, k=bias)
        context.give(node.outputs[0], made)
        return
    if len(x.shape) < 2:
        raise Refused("an LRN without channels")
    sizes = sizing.sizes(context, x)
    square = context.op("mul", x=x, y=x)
    rest = sizing.product(context, sizes[2:])
    flat = sizing.reshape(context, square, [sizes[0], 1, sizes[1], rest])
    mean = context.op(
        "avg_pool",
        x=flat,
        kernel_sizes=[size, 1],
        pad_type="custom",
        pad=[(size - 1) // 2, size // 2, 0, 0],
        exclude_padding_from_average=False,
    )
    share = context.op("mul", x=sizing.reshape(context, mean, sizes), y=alpha)
    power = context.op("pow", x=context.op("add", x=share, y=bias), y=beta)
    context.give(node.outputs[0], context.op("real_div", x=x, y=power))
