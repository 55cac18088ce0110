"""Det: written out for matrices of up to four rows."""

from __future__ import annotations

import onnx_ir

from emitters.coreml.context import Context, Var, free
from emitters.coreml.registry import lowers
from emitters.coreml.sizing import reshape, sizes
from emitters.lowering.plans.determinant import MOST, determinant_of
from emitters.lowering.refused import Refused


@lowers("Det")
def determinant(context: Context, node: onnx_ir.Node) -> None:
    """By minors along the first row."""
    x = context.var(node.inputs[0])
    count = x.shape[-1]
    if free(count) or not 0 < count <= MOST:
        raise Refused(f"a Det of {count} rows: up to {MOST} can be written out")
    outer = sizes(context, x)[:-2]
    flat = reshape(context, x, [*outer, int(count) ** 2])
    cells = context.op("split", x=flat, num_splits=int(count) ** 2, axis=-1)
    cells = cells if isinstance(cells, tuple) else (cells,)
    rows = [list(cells[start : start + count]) for start in range(0, len(cells), count)]

    def compute(kind: str, a: Var, b: Var) -> Var:
        return context.op(kind, x=a, y=b)

    made = context.op("squeeze", x=determinant_of(rows, compute), axes=[-1])
    context.give(node.outputs[0], made)
