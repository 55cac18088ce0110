"""ReduceMean and other reductions, GlobalAveragePool and GlobalMaxPool, ArgMax, CumSum."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir

from emitters.lowering.refused import Refused
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
_Step = Callable[[Context, Tensor], Tensor]


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
    axes, keep = _axes(context, node, x), _keeps(node)
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
    """A reduction in a type that its kernel takes. Truth values are REDUCE_ANY and REDUCE_ALL."""
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
        raise Refused("a reduction over an axis of no elements beside free dimensions")
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
    """One reducing operator of TFLite."""
    made = context.emit(
        op,
        [x, context.integers(axes)],
        without(x.shape, axes, keep),
        options={"keepDims": keep},
    )
    made.quant = quant  # type: ignore[assignment]
    return made


def without(shape: Shape, axes: Sequence[int], keep: bool) -> Shape:
    """The shape after a reduction."""
    if keep:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def _axes(context: Context, node: onnx_ir.Node, x: Tensor) -> list[int]:
    """The axes that are reduced; all of them where none are named, unless ONNX says not to."""
    attribute = node.attributes.get("axes")
    named: list[int] = []
    if attribute is not None:
        named = list(attribute.as_ints())
    elif len(node.inputs) > 1 and node.inputs[1] is not None:
        named = [int(axis) for axis in context.needed(node, 1, "axes").ravel()]
    if named:
        return sorted({axis % x.rank for axis in named})
    nothing = node.attributes.get("noop_with_empty_axes")
    return [] if nothing is not None and nothing.as_int() else list(range(x.rank))


def _keeps(node: onnx_ir.Node) -> bool:
    keep = node.attributes.get("keepdims")
    return bool(keep is None or keep.as_int())


# -- reductions that are made of others --------------------------------------------------


def _absolute(context: Context, x: Tensor) -> Tensor:
    return kernels.unary(context, "ABS", x)


def _square(context: Context, x: Tensor) -> Tensor:
    return kernels.binary(context, "MUL", x, x)


def _same(context: Context, x: Tensor) -> Tensor:
    return x


def _root(context: Context, x: Tensor) -> Tensor:
    return kernels.unary(context, "SQRT", x)


def _log(context: Context, x: Tensor) -> Tensor:
    return kernels.unary(context, "LOG", x)


_AROUND_SUM: dict[str, tuple[_Step, _Step]] = {
    "ReduceL1": (_absolute, _same),
    "ReduceL2": (_square, _root),
    "ReduceLogSum": (_same, _log),
    "ReduceSumSquare": (_square, _same),
}


@lowers(*_AROUND_SUM)
def around_sum(context: Context, node: onnx_ir.Node) -> None:
    """SUM of something, and something of that."""
    x = context.tensor(node.inputs[0])
    before, after = _AROUND_SUM[node.op_type]
    axes = _axes(context, node, x)
    inner = before(context, x)
    total = of_numbers(context, "SUM", inner, axes, _keeps(node)) if axes else inner
    context.give(node.outputs[0], after(context, total))


@lowers("ReduceLogSumExp")
def log_sum_exp(context: Context, node: onnx_ir.Node) -> None:
    """log(sum(exp(x - max))) + max: no exponential overflows."""
    x = context.tensor(node.inputs[0])
    axes, keep = _axes(context, node, x), _keeps(node)
    if not axes:
        context.give(node.outputs[0], x)
        return
    if 0 in [x.shape[axis] for axis in axes]:
        context.give(node.outputs[0], _of_nothing(context, "REDUCE_MAX", x, axes, keep))
        return
    largest = reduced(context, "REDUCE_MAX", x, axes, True)
    powers = build.unary(context, "EXP", build.binary(context, "SUB", x, largest))
    log = build.unary(context, "LOG", reduced(context, "SUM", powers, axes, True))
    whole = build.binary(context, "ADD", log, largest)
    context.give(node.outputs[0], build.reshape(context, whole, without(x.shape, axes, keep)))


# -- along one axis ----------------------------------------------------------------------


@lowers("ArgMax", "ArgMin")
def arg(context: Context, node: onnx_ir.Node) -> None:
    """ARG_MAX, ARG_MIN: the first of equal ones; the last, from the reversed data. Of int64, which
    their kernels don't take, where the data is what REDUCE_MAX or REDUCE_MIN gives."""
    x = context.tensor(node.inputs[0])
    axis = _attribute(node, "axis", 0) % x.rank
    op = "ARG_MAX" if node.op_type == "ArgMax" else "ARG_MIN"
    (x,) = kernels.widened(context, "MAXIMUM", x) if x.dtype != DataType.FLOAT else (x,)
    if x.dtype == DataType.INT64:
        x, op = _is_extreme(context, x, axis, node.op_type == "ArgMax"), "ARG_MAX"
    last = bool(_attribute(node, "select_last_index", 0))
    if last:
        x = context.emit("REVERSE_V2", [x, context.integers([axis])], x.shape)
    made = context.emit(
        op,
        [x, context.constant(np.asarray(axis, np.int32))],
        without(x.shape, [axis], False),
        DataType.INT64,
        options={"outputType": TENSOR_TYPES[DataType.INT64]},
    )
    if last:
        size = x.shape[axis]
        if not isinstance(size, int):
            raise Refused("select_last_index along a free dimension")
        made = build.binary(context, "SUB", build.scalar(context, size - 1, made), made)
    if _keeps(node):
        made = build.reshape(context, made, without(x.shape, [axis], True))
    context.give(node.outputs[0], made)


def _is_extreme(context: Context, x: Tensor, axis: int, largest: bool) -> Tensor:
    """1 where the largest or smallest along an axis is, else 0: int32."""
    op = "REDUCE_MAX" if largest else "REDUCE_MIN"
    inputs = [x, context.integers([axis])]
    best = context.emit(op, inputs, without(x.shape, [axis], True), options={"keepDims": True})
    same = build.binary(context, "EQUAL", x, best, DataType.BOOL)
    same.shape = x.shape
    return build.cast(context, same, DataType.INT32)


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
            "exclusive": bool(_attribute(node, "exclusive", 0)),
            "reverse": bool(_attribute(node, "reverse", 0)),
        },
    )
    context.give(node.outputs[0], build.cast(context, made, x.dtype))


def _attribute(node: onnx_ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return attribute.as_int() if attribute is not None else default
