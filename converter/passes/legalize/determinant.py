"""Det, written out by minors along the first row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.refused import Refused
from converter.passes.legalize.builder import Builder, Value, dims

MOST = 4
"""Rows; more would take pivots, to keep rounding small."""


def determinant(b: Builder, node: onnx_ir.Node) -> Value:
    """Of matrices of up to four rows."""
    x = node.inputs[0]
    assert x is not None
    size = dims(x)[-1]
    if not isinstance(size, int) or not 0 < size <= MOST:
        raise Refused(f"a Det of {size} rows: Modelyard writes out up to {MOST}")
    flat = b.reshape(x, [*b.sizes(x)[:-2], size * size])
    cells = [b.op("Gather", flat, np.asarray(place), axis=-1) for place in range(size * size)]
    return _minors(b, [cells[start : start + size] for start in range(0, size * size, size)])


def _minors(b: Builder, rows: Sequence[Sequence[Value]]) -> Value:
    """The sum of the first row's elements times the determinants of what is left."""
    if len(rows) == 1:
        return rows[0][0]
    total: Value | None = None
    for column, element in enumerate(rows[0]):
        term = b.op("Mul", element, _minors(b, [[*r[:column], *r[column + 1 :]] for r in rows[1:]]))
        total = term if total is None else b.op("Sub" if column % 2 else "Add", total, term)
    assert total is not None
    return total


REWRITES = {"Det": determinant}
