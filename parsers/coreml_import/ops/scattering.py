"""Elements written to where indices say, or combined with what is there."""

from __future__ import annotations

import numpy as np
import onnx_ir

from parsers.coreml_import.operation import Operation
from parsers.coreml_import.reader import DataType, Reader
from parsers.coreml_import.refusal import Refusal
from parsers.coreml_import.registry import reads
from parsers.coreml_import.sizes import part, positive, rank, whole

_REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@reads("scatter")
def scatter(reader: Reader, op: Operation) -> None:
    """Whole slices along an axis: ScatterND along the first, ScatterElements along others."""
    data, updates = reader.value(op, "data"), reader.value(op, "updates")
    axis = positive(reader.setting(op, "axis", 0), rank(data))
    indices = whole(reader, op, "indices")
    if axis == 0:
        column = reader.node("Unsqueeze", [indices, reader.ints([1])])
        reader.give(op, _scattered(reader, op, "ScatterND", [data, column, updates]))
        return
    shape = [-1, *[1] * (rank(data) - axis - 1)]
    aligned = reader.node("Reshape", [indices, reader.ints(shape)])
    spread = reader.node("Expand", [aligned, part(reader, updates, 0)])
    settings = {"axis": axis}
    reader.give(op, _scattered(reader, op, "ScatterElements", [data, spread, updates], settings))


@reads("scatter_along_axis")
def scatter_along_axis(reader: Reader, op: Operation) -> None:
    """ScatterElements."""
    inputs = [reader.value(op, "data"), whole(reader, op, "indices"), reader.value(op, "updates")]
    settings = {"axis": reader.setting(op, "axis", 0)}
    reader.give(op, _scattered(reader, op, "ScatterElements", inputs, settings))


@reads("scatter_nd")
def scatter_nd(reader: Reader, op: Operation) -> None:
    """ScatterND."""
    inputs = [reader.value(op, "data"), whole(reader, op, "indices"), reader.value(op, "updates")]
    reader.give(op, _scattered(reader, op, "ScatterND", inputs))


def _scattered(
    reader: Reader,
    op: Operation,
    kind: str,
    inputs: list[onnx_ir.Value],
    settings: dict[str, int] | None = None,
) -> onnx_ir.Value:
    """By the mode: what is subtracted is added negated, and what divides is multiplied first, for
    indices may come more than once."""
    data, indices, updates = inputs
    mode = reader.setting(op, "mode", "add")
    if mode == "sub":
        updates, mode = reader.node("Neg", [updates]), "add"
    if mode == "div":
        if data.dtype not in (DataType.FLOAT, DataType.FLOAT16):
            raise Refusal("it divides integers, and how it rounds isn't documented")
        ones = reader.node(
            "ConstantOfShape",
            [part(reader, data, 0)],
            {"value": onnx_ir.Tensor(np.ones(1, data.dtype.numpy()))},
            data.dtype,
        )
        attributes: dict[str, int | str] = {**(settings or {}), "reduction": "mul"}
        return reader.node("Div", [data, reader.node(kind, [ones, indices, updates], attributes)])
    if mode not in _REDUCTIONS:
        raise Refusal(f"it scatters by {mode}")
    attributes = {**(settings or {}), "reduction": _REDUCTIONS[mode]}
    return reader.node(kind, [data, indices, updates], attributes)
