"""Det: written out for matrices of up to four rows."""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import reshape, sizes
from emitters.lowering.refused import Refused

MOST = 4
"""Rows; more would take pivots, to keep rounding small."""


@lowers("Det")
def determinant(context: Context, node: onnx_ir.Node) -> None:
    """By minors along the first row: its elements, and the determinants of what is left."""
    x = context.var(node.inputs[0])
    count = x.shape[-1]
    if free(count) or not 0 < count <= MOST:
        raise Refused(f"a Det of {count} rows: up to {MOST} can be written out")
    outer = sizes(context, x)[:-2]
    flat = reshape(context, x, [*outer, int(count) ** 2])
    cells = context.op("split", x=flat, num_splits=int(count) ** 2, axis=-1)
    cells = cells if isinstance(cells, tuple) else (cells,)
    rows = [list(cells[start : start + count]) for start in range(0, len(cells), count)]
    made = context.op("squeeze", x=_minors(context, rows), axes=[-1])
    context.give(node.outputs[0], made)


def _minors(context: Context, rows: list[list[Var]]) -> Var:
    if len(rows) == 1:
        return rows[0][0]
    total: Var | None = None
    for column, element in enumerate(rows[0]):
        rest = [row[:column] + row[column + 1 :] for row in rows[1:]]
        term = context.op("mul", x=element, y=_minors(context, rest))
        kind = "sub" if column % 2 else "add"
        total = term if total is None else context.op(kind, x=total, y=term)
    return total
