"""Stores tied weights once: a matrix that another one is, transposed, is made of that one.

    Given:   e = Gather (table, ids)     y = MatMul (x, turned)     turned: the table, transposed
    Result:  e = Gather (table, ids)     y = MatMul (x, Transpose (table))

Exporters and simplifiers fold such a Transpose. ONNX Runtime does it too, when it loads the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import is_constant
from converter.ir.model import Model

LEAST = 1 << 12
"""Bytes from which a matrix is worth a node."""

_ROWS = 1 << 8
_FEW = 1 << 6

Array = np.ndarray[Any, Any]


def keep_tied(model: Model) -> Model:
    """The model; a copy where it has such pairs, which then are one matrix each."""
    if not any(True for _ in _pairs(model)):
        return model
    copy = model.copy()
    for kept, turned in list(_pairs(copy)):
        _make_of(kept, turned)
    return copy


def _pairs(model: Model) -> Iterator[tuple[onnx_ir.Value, onnx_ir.Value]]:
    """Matrices of the main graph, each with what is it transposed, which products alone use."""
    matrices = [value for value in model.graph.graph.initializers.values() if _is_matrix(value)]
    left = dict.fromkeys(sorted(matrices, key=_is_factor))
    edges = cache(_edges)
    for kept in list(left):
        if kept not in left:  # it is another's
            continue
        del left[kept]
        alike = (v for v in left if _is_factor(v) and _may_be_transposed(kept, v))
        turned = next(
            (v for v in alike if edges(v) == edges(kept)[::-1] and _is_transposed(kept, v)), None
        )
        if turned is not None:
            del left[turned]
            yield kept, turned


def _is_factor(value: onnx_ir.Value) -> bool:
    return all(use.node.op_type in ("Gemm", "MatMul") for use in value.uses())


def _is_matrix(value: onnx_ir.Value) -> bool:
    tensor = value.const_value
    return (
        is_constant(value)
        and not value.is_graph_output()
        and tensor is not None
        and len(tensor.shape) == 2
        and tensor.dtype.itemsize <= 8
        and tensor.nbytes >= LEAST
    )


def _may_be_transposed(one: onnx_ir.Value, other: onnx_ir.Value) -> bool:
    mine, theirs = one.const_value, other.const_value
    assert mine is not None and theirs is not None
    return mine.dtype == theirs.dtype and [*mine.shape] == [*theirs.shape][::-1]


def _edges(value: onnx_ir.Value) -> tuple[bytes, bytes]:
    """A few numbers of a matrix's first row, and of its first column: those that differ in these
    aren't compared whole."""
    assert value.const_value is not None
    bits = _bits(value.const_value)
    return bits[0, :_FEW].tobytes(), bits[:_FEW, 0].tobytes()


def _is_transposed(one: onnx_ir.Value, other: onnx_ir.Value) -> bool:
    """Whether two of such shapes have the same bytes, rows of one as columns of the other."""
    mine, theirs = one.const_value, other.const_value
    assert mine is not None and theirs is not None
    a, b = _bits(mine), _bits(theirs).T
    return all(
        np.array_equal(a[start : start + _ROWS], b[start : start + _ROWS])
        for start in range(0, len(a), _ROWS)
    )


def _bits(tensor: onnx_ir.TensorProtocol) -> Array:
    array = tensor.numpy()
    return array.view(f"u{array.itemsize}")


def _make_of(kept: onnx_ir.Value, turned: onnx_ir.Value) -> None:
    graph, name = turned.graph, turned.name
    assert isinstance(graph, onnx_ir.Graph) and name is not None
    node = onnx_ir.node("Transpose", [kept], {"perm": [1, 0]}, name=f"{name}_transposed")
    made = node.outputs[0]
    made.type, made.shape = turned.type, turned.shape
    turned.replace_all_uses_with(made)
    del graph.initializers[name]
    made.name = name
    graph.insert_before(graph[0], node)
