"""ReduceMean and other reductions, GlobalAveragePool and GlobalMaxPool, ArgMax, CumSum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.attributes import number
from converter.ir.operands import given
from converter.ir.refused import Refused
from emitters.tflite import build, kernels
from emitters.tflite.build import TENSOR_TYPES
from emitters.tflite.context import QUANT, Context
from emitters.tflite.graph import DataType, Shape, Tensor
from emitters.tflite.registry import lowers

_PLAIN = {
    "ReduceMax": "REDUCE_MAX",
    "ReduceMean": "MEAN",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
    "ReduceSum": "SUM",
}


@lowers("GlobalAveragePool", "GlobalMaxPool", integer=True)
def global_pool(context: Context, node: onnx_ir.Node) -> None:
    """MEAN or REDUCE_MAX over all axes but batch and channels."""
    x = context.tensor(node.inputs[0])
    op = "MEAN" if node.op_type == "GlobalAveragePool" else "REDUCE_MAX"
    quant = node.outputs[0].meta.get(QUANT)
    context.give(node.outputs[0], reduced(context, op, x, range(2, x.rank), True, quant))


@lowers("ReduceMean", "ReduceMax", "ReduceMin", integer=True)
@lowers("ReduceSum", "ReduceProd")
def plain(context: Context, node: onnx_ir.Node) -> None:
    """MEAN, REDUCE_MAX, REDUCE_MIN, SUM, REDUCE_PROD."""
    x = context.tensor(node.inputs[0])
    axes, keep = _axes(node, x), bool(number(node, "keepdims", 1))
    output = node.outputs[0]
    quant = output.meta.get(QUANT)
    if not axes:
        context.give(output, x)
    elif quant is not None:
        made = reduced(context, _PLAIN[node.op_type], x, axes, keep, quant)
        context.give(output, made)
    else:
        context.give(output, of_numbers(context, _PLAIN[node.op_type], x, axes, keep))


def of_numbers(context: Context, op: str, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """A reduction in a type that its kernel takes. Truth values are REDUCE_ANY and REDUCE_ALL.

    Args:
        context: Where it goes.
        op: The schema's name: REDUCE_MAX, SUM...
        x: The tensor.
        axes: Those that are reduced, counted from the first.
        keep: Whether they stay, with a size of 1.
    """
    if 0 in [x.shape[axis] for axis in axes]:
        return _of_nothing(context, op, x, axes, keep)
    if x.dtype == DataType.BOOL and op in ("REDUCE_MAX", "REDUCE_MIN"):
        truth = "REDUCE_ANY" if op == "REDUCE_MAX" else "REDUCE_ALL"
        return reduced(context, truth, x, axes, keep)
    (wide,) = kernels.widened(context, op, x)
    return build.cast(context, reduced(context, op, wide, axes, keep), x.dtype)


def _of_nothing(context: Context, op: str, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """A reduction over no elements: a constant, as ONNX defines it."""
    shape = without(x.shape, axes, keep)
    sizes = [dim for dim in shape if isinstance(dim, int)]
    if len(sizes) != len(shape):
        raise Refused("a reduction over an axis without elements, beside free dimensions")
    dtype = x.dtype.numpy()
    low, high = -np.inf, np.inf
    if dtype.kind in "iu":
        low, high = float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    elif dtype.kind == "b":
        low, high = 0.0, 1.0
    number = {"SUM": 0, "REDUCE_PROD": 1, "REDUCE_MAX": low, "REDUCE_MIN": high}.get(op, np.nan)
    return context.constant(np.full(sizes, number, dtype))


def reduced(
    context: Context,
    op: str,
    x: Tensor,
    axes: Sequence[int],
    keep: bool,
    quant: object = None,
) -> Tensor:
    """One reducing operator of TFLite.

    Args:
        context: Where it goes.
        op: The schema's name: REDUCE_MAX, SUM...
        x: The tensor, of a type that the kernel takes.
        axes: Those that are reduced, counted from the first.
        keep: Whether they stay, with a size of 1.
        quant: The result's scales.
    """
    made = context.emit(
        op,
        [x, context.integers(axes)],
        without(x.shape, axes, keep),
        options={"keepDims": keep},
    )
    made.quant = quant  # type: ignore[assignment]
    return made


def without(shape: Shape, axes: Sequence[int], keep: bool) -> Shape:
    """The shape after a reduction.

    Args:
        shape: The shape before.
        axes: Those that are reduced, counted from the first.
        keep: Whether they stay, with a size of 1.
    """
    if keep:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def _axes(node: onnx_ir.Node, x: Tensor) -> list[int]:
    """The axes that are reduced; all of them where none are named, unless ONNX says not to."""
    named = given(node, 1, "axes")
    if named is not None and named.size:
        return sorted({int(axis) % x.rank for axis in named.ravel()})
    return [] if number(node, "noop_with_empty_axes", 0) else list(range(x.rank))


# -- along one axis ----------------------------------------------------------------------


_COMPARED = frozenset(
    {DataType.FLOAT, DataType.FLOAT16, DataType.INT8, DataType.INT16, DataType.INT32,
     DataType.UINT8, DataType.UINT16}
)  # fmt: skip
"""Types that ARG_MAX and ARG_MIN take, as they are or widened."""


def _gives_first(node: onnx_ir.Node) -> bool:
    x = node.inputs[0]
    last = number(node, "select_last_index", 0)
    return not last and x is not None and x.dtype in _COMPARED


@lowers("ArgMax", "ArgMin", legal=_gives_first)
def arg(context: Context, node: onnx_ir.Node) -> None:
    """ARG_MAX, ARG_MIN: the first of equal ones."""
    x = context.tensor(node.inputs[0])
    axis = number(node, "axis", 0) % x.rank
    (x,) = kernels.widened(context, "MAXIMUM", x) if x.dtype != DataType.FLOAT else (x,)
    made = context.emit(
        "ARG_MAX" if node.op_type == "ArgMax" else "ARG_MIN",
        [x, context.constant(np.asarray(axis, np.int32))],
        without(x.shape, [axis], False),
        DataType.INT64,
        options={"outputType": TENSOR_TYPES[DataType.INT64]},
    )
    if number(node, "keepdims", 1):
        made = build.reshape(context, made, without(x.shape, [axis], True))
    context.give(node.outputs[0], made)


@lowers("CumSum")
def cumulative_sum(context: Context, node: onnx_ir.Node) -> None:
    """CUMSUM, exclusive and reversed as ONNX says."""
    x = context.tensor(node.inputs[0])
    axis = int(context.needed(node, 1, "axis").item()) % x.rank
    (wide,) = kernels.widened(context, "SUM", x)
    made = context.emit(
        "CUMSUM",
        [wide, context.constant(np.asarray(axis, np.int32))],
        x.shape,
        options={
            "exclusive": bool(number(node, "exclusive", 0)),
            "reverse": bool(number(node, "reverse", 0)),
        },
    )
    context.give(node.outputs[0], build.cast(context, made, x.dtype))
