"""Elements written to where indices say, or combined with what is there."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml.bounds import indices
from parsers.coreml.operation import Operation
from parsers.coreml.reader import DataType, Reader
from parsers.coreml.refusal import Refusal
from parsers.coreml.registry import reads
from parsers.coreml.sizes import part, positive, rank, sizes

_REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@reads("scatter")
def scatter(reader: Reader, op: Operation) -> None:
    """Whole slices along an axis: ScatterND along the first, ScatterElements along others."""
    data, updates = reader.value(op, "data"), reader.value(op, "updates")
    axis = positive(reader.setting(op, "axis", 0), rank(data))
    where = indices(reader, op, data, [axis])
    if axis == 0:
        column = reader.node("Unsqueeze", [where, reader.ints([1])])
        reader.give(op, _scattered(reader, op, "ScatterND", [data, column, updates]))
        return
    shape = [-1, *[1] * (rank(data) - axis - 1)]
    aligned = reader.node("Reshape", [where, reader.ints(shape)])
    spread = reader.node("Expand", [aligned, part(reader, updates, 0)])
    settings = {"axis": axis}
    reader.give(op, _scattered(reader, op, "ScatterElements", [data, spread, updates], settings))


@reads("scatter_along_axis")
def scatter_along_axis(reader: Reader, op: Operation) -> None:
    data, updates = reader.value(op, "data"), reader.value(op, "updates")
    axis = positive(reader.setting(op, "axis", 0), rank(data))
    inputs = [data, indices(reader, op, data, [axis]), updates]
    reader.give(op, _scattered(reader, op, "ScatterElements", inputs, {"axis": axis}))


@reads("scatter_nd")
def scatter_nd(reader: Reader, op: Operation) -> None:
    data, updates = reader.value(op, "data"), reader.value(op, "updates")
    depth = sizes(reader.value(op, "indices"))[-1]
    where = indices(reader, op, data, range(rank(data) if depth is None else depth))
    reader.give(op, _scattered(reader, op, "ScatterND", [data, where, updates]))


def _scattered(
    reader: Reader,
    op: Operation,
    kind: str,
    inputs: list[onnx_ir.Value],
    settings: dict[str, int] | None = None,
) -> onnx_ir.Value:
    """By the mode: what is subtracted is added negated. float16 is combined in float32, for which
    ONNX Runtime has all of it."""
    data, where, updates = inputs
    dtype, mode = data.dtype, str(reader.setting(op, "mode", "add"))
    if dtype == DataType.FLOAT16 and mode != "update":
        data, updates = (reader.cast(x, DataType.FLOAT) for x in (data, updates))
    if mode == "sub":
        updates, mode = reader.node("Neg", [updates]), "add"
    if mode == "div":
        y = _divided(reader, kind, [data, where, updates], settings or {})
    elif mode in _REDUCTIONS:
        attributes: dict[str, int | str] = {**(settings or {}), "reduction": _REDUCTIONS[mode]}
        y = reader.node(kind, [data, where, updates], attributes)
    else:
        raise Refusal(f"it scatters by {mode}")
    return y if dtype is None else reader.cast(y, dtype)


def _divided(
    reader: Reader, kind: str, inputs: list[onnx_ir.Value], settings: dict[str, int]
) -> onnx_ir.Value:
    """The divisors are multiplied first, for indices may come more than once."""
    data, where, updates = inputs
    if data.dtype != DataType.FLOAT:
        raise Refusal("it divides integers, and its rounding isn't documented")
    one = onnx_ir.Tensor(np.ones(1, np.float32))
    shape = part(reader, data, 0)
    ones = reader.node("ConstantOfShape", [shape], {"value": one}, data.dtype)
    attributes: dict[str, int | str] = {**settings, "reduction": "mul"}
    return reader.node("Div", [data, reader.node(kind, [ones, where, updates], attributes)])
