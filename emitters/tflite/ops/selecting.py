"""NonZero, Compress, Trilu, EyeLike: what is left of a tensor, by its values or places."""

from __future__ import annotations

import numpy as np
import onnx_ir

from emitters.lowering.refused import Refused
from emitters.tflite import build, kernels
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Shape, Tensor, known
from emitters.tflite.ops.arithmetic import select
from emitters.tflite.ops.gathering import counted
from emitters.tflite.registry import lowers


@lowers("NonZero")
def non_zero(context: Context, node: onnx_ir.Node) -> None:
    """WHERE, which has a row for each element where ONNX has a column."""
    x = context.tensor(node.inputs[0])
    if x.rank == 0:
        raise Refused("a NonZero of a number of no axes")
    made = _where(context, x, f"{node.outputs[0].name}?1")
    context.give(node.outputs[0], build.transpose(context, made, [1, 0]))


def _where(context: Context, x: Tensor, symbol: str) -> Tensor:
    """The places of what isn't zero or false: int64 [symbol, rank]."""
    if x.dtype != DataType.BOOL:
        x = kernels.compare(context, "NOT_EQUAL", x, build.scalar(context, 0, x))
    return context.emit("WHERE", [x], (symbol, x.rank), DataType.INT64)


@lowers("Compress")
def compress(context: Context, node: onnx_ir.Node) -> None:
    """WHERE, and GATHER of the places along the axis; without one, of the flat data."""
    x, condition = context.tensors(node)
    attribute = node.attributes.get("axis")
    if attribute is None:
        count = x.size if x.size is not None else f"{node.outputs[0].name}?elements"
        x = build.reshape(context, x, (count,))
    axis = attribute.as_int() % x.rank if attribute is not None else 0
    symbol = f"{node.outputs[0].name}?{axis}"
    found = build.reshape(context, _where(context, condition, symbol), (symbol,))
    shape = (*x.shape[:axis], symbol, *x.shape[axis + 1 :])
    options = {"axis": axis, "batchDims": 0}
    made = context.emit("GATHER", [x, found], shape, quant=x.quant, options=options)
    context.give(node.outputs[0], made)


@lowers("Trilu")
def triangle(context: Context, node: onnx_ir.Node) -> None:
    """SELECT_V2 by a mask: on and above the diagonal ``k``, or on and below it."""
    x = context.tensor(node.inputs[0])
    if x.size == 0:
        context.give(node.outputs[0], x)
        return
    upper = node.attributes.get("upper")
    given = context.optional(node, 1)
    k = given if given is not None else context.constant(np.asarray(0, np.int64))
    op = "GREATER_EQUAL" if upper is None or upper.as_int() else "LESS_EQUAL"
    mask = _beside_diagonal(context, x.shape[-2:], k, op)
    if x.rank > 4:
        flat = (_product(x.shape[:-2], node), *x.shape[-2:])
        kept = select(context, mask, build.reshape(context, x, flat), build.scalar(context, 0, x))
        context.give(node.outputs[0], build.reshape(context, kept, x.shape))
        return
    made = select(context, mask, x, build.scalar(context, 0, x))
    context.give(node.outputs[0], made)


def _product(shape: Shape, node: onnx_ir.Node) -> int | str:
    sizes = known(shape)
    return f"{node.outputs[0].name}?matrices" if sizes is None else int(np.prod(sizes))


def _beside_diagonal(context: Context, shape: Shape, k: Tensor, op: str) -> Tensor:
    """A mask [rows, columns] of column - row compared with ``k``."""
    sizes = known(shape)
    if sizes is not None and k.data is not None:
        steps = np.arange(sizes[1]) - np.arange(sizes[0])[:, None]
        kept = {"EQUAL": np.equal, "GREATER_EQUAL": np.greater_equal, "LESS_EQUAL": np.less_equal}
        return context.constant(kept[op](steps, k.data.reshape(())))
    rows = build.reshape(context, counted(context, shape[0]), (shape[0], 1))
    off = build.binary(context, "SUB", counted(context, shape[1]), rows)
    number = build.reshape(context, build.cast(context, k, DataType.INT32), ())
    return build.binary(context, op, off, number, DataType.BOOL)


@lowers("EyeLike")
def eye_like(context: Context, node: onnx_ir.Node) -> None:
    """Where the column is the row plus ``k``: a constant, or compared at run time."""
    x, attribute = context.tensor(node.inputs[0]), node.attributes.get("k")
    k = context.constant(np.asarray(attribute.as_int() if attribute is not None else 0, np.int64))
    mask = _beside_diagonal(context, x.shape, k, "EQUAL")
    context.give(node.outputs[0], build.cast(context, mask, context.dtype(node.outputs[0])))
