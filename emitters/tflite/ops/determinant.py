"""Det: written out for matrices of up to four rows."""

from __future__ import annotations

import onnx_ir

from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.registry import lowers

MOST = 4
"""Rows; more would take pivots, to keep rounding small."""


@lowers("Det")
def determinant(context: Context, node: onnx_ir.Node) -> None:
    """By minors along the first row: its elements, and the determinants of what is left."""
    x = context.tensor(node.inputs[0])
    size = x.shape[-1]
    if not isinstance(size, int) or size > MOST or size == 0 or x.dtype != DataType.FLOAT:
        raise Refused(f"a Det of {size} rows of {x.dtype.name.lower()}: up to {MOST} of float32")
    outer = x.shape[:-2]
    flat = build.reshape(context, x, (*outer, size * size))
    cells = [_element(context, flat, place) for place in range(size * size)]
    rows = [cells[start : start + size] for start in range(0, size * size, size)]
    context.give(node.outputs[0], build.reshape(context, _minors(context, rows), outer))


def _element(context: Context, flat: Tensor, place: int) -> Tensor:
    options = {"axis": flat.rank - 1, "batchDims": 0}
    shape = (*flat.shape[:-1], 1)
    return context.emit("GATHER", [flat, context.integers([place])], shape, options=options)


def _minors(context: Context, rows: list[list[Tensor]]) -> Tensor:
    if len(rows) == 1:
        return rows[0][0]
    total: Tensor | None = None
    for column, element in enumerate(rows[0]):
        rest = [row[:column] + row[column + 1 :] for row in rows[1:]]
        term = build.binary(context, "MUL", element, _minors(context, rest))
        op = "SUB" if column % 2 else "ADD"
        total = term if total is None else build.binary(context, op, total, term)
    assert total is not None
    return total
