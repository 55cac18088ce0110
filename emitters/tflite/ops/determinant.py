"""Det: written out for matrices of up to four rows."""

from __future__ import annotations

import onnx_ir

from emitters.lowering.plans.determinant import MOST, determinant_of
from emitters.lowering.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Tensor
from emitters.tflite.registry import lowers


@lowers("Det")
def determinant(context: Context, node: onnx_ir.Node) -> None:
    """By minors along the first row."""
    x = context.tensor(node.inputs[0])
    size = x.shape[-1]
    if not isinstance(size, int) or size > MOST or size == 0 or x.dtype != DataType.FLOAT:
        raise Refused(f"a Det of {size} rows of {x.dtype.name.lower()}: up to {MOST} of float32")
    outer = x.shape[:-2]
    flat = build.reshape(context, x, (*outer, size * size))
    cells = [_element(context, flat, place) for place in range(size * size)]
    rows = [cells[start : start + size] for start in range(0, size * size, size)]

    def compute(kind: str, a: Tensor, b: Tensor) -> Tensor:
        return build.binary(context, kind.upper(), a, b)

    context.give(node.outputs[0], build.reshape(context, determinant_of(rows, compute), outer))


def _element(context: Context, flat: Tensor, place: int) -> Tensor:
    options = {"axis": flat.rank - 1, "batchDims": 0}
    shape = (*flat.shape[:-1], 1)
    return context.emit("GATHER", [flat, context.integers([place])], shape, options=options)
