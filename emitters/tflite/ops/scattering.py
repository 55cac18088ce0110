"""ScatterND: SCATTER_ND and STABLEHLO_SCATTER.

SCATTER_ND adds up what meets in one place, and starts from zeros: with an ADD it does what adds, in
a fiftieth of the time. STABLEHLO_SCATTER starts from the data, and sets, adds, multiplies, or keeps
the largest or smallest, one update after the other.
"""

from __future__ import annotations

import numpy as np
import onnx_ir

from converter.ir.attributes import text
from converter.ir.refused import Refused
from emitters.tflite import build
from emitters.tflite.context import Context
from emitters.tflite.graph import DataType, Operator, Subgraph, Tensor
from emitters.tflite.ops.gathering import limited_vectors
from emitters.tflite.registry import lowers
from emitters.tflite.subgraphs import add

_COMPUTATIONS = {
    "add": "STABLEHLO_ADD",
    "mul": "STABLEHLO_MULTIPLY",
    "max": "STABLEHLO_MAXIMUM",
    "min": "STABLEHLO_MINIMUM",
}

_TYPES = frozenset(
    {DataType.FLOAT, DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64,
     DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64}
)  # fmt: skip
_ADDED = frozenset({DataType.FLOAT, DataType.INT32, DataType.INT64})
"""What SCATTER_ND and ADD both take."""

_FAR = np.iinfo(np.int32).max


@lowers("ScatterND")
def scatter_nd(context: Context, node: onnx_ir.Node) -> None:
    """STABLEHLO_SCATTER of windows: ONNX's negative indices count from the end."""
    data, indices, updates = context.tensors(node)
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        raise Refused("a ScatterND with indices of unknown length")
    indices = limited_vectors(context, indices, data, depth)
    count = _count(indices, node)
    rows = build.reshape(context, indices, (count, depth))
    windows = build.reshape(context, updates, (count, *data.shape[depth:]))
    made = scattered(context, data, rows, windows, text(node, "reduction", "none"))
    context.give(node.outputs[0], made)


def _count(indices: Tensor, node: onnx_ir.Node) -> int | str:
    total = 1
    for dim in indices.shape[:-1]:
        if not isinstance(dim, int):
            return f"{node.outputs[0].name}?rows"
        total *= dim
    return total


def scattered(
    context: Context, data: Tensor, rows: Tensor, windows: Tensor, reduction: str
) -> Tensor:
    """``data`` with windows put in.

    Args:
        context: Where operators go.
        data: Of any rank.
        rows: Where they begin: [n, depth], int32 or int64, none of them negative.
        windows: [n, ...], with the sizes of the data's axes from ``depth`` on.
        reduction: ``none``, ``add``, ``mul``, ``max``, ``min``.
    """
    if data.size == 0 or rows.shape[0] == 0:
        return data
    if data.dtype == DataType.BOOL and reduction == "none":
        parts = [build.cast(context, tensor, DataType.INT8) for tensor in (data, windows)]
        made = scattered(context, parts[0], rows, parts[1], reduction)
        return build.cast(context, made, DataType.BOOL)
    if reduction == "add" and data.dtype in _ADDED:
        inputs = [build.cast(context, rows, DataType.INT32), windows, context.sizes(data.shape)]
        sums = context.emit("SCATTER_ND", inputs, data.shape, data.dtype)
        return build.binary(context, "ADD", data, sums)
    if data.dtype not in _TYPES:
        raise Refused(f"STABLEHLO_SCATTER doesn't take {data.dtype.name.lower()}")
    if rows.shape[0] != windows.shape[0] or not isinstance(rows.shape[0], int):
        rows, windows = _with_one_beside(context, rows, windows)
    depth = rows.shape[1]
    assert isinstance(depth, int)
    options = {
        "updateWindowDims": _longs(range(1, windows.rank)),
        "insertedWindowDims": _longs(range(depth)),
        "scatterDimsToOperandDims": _longs(range(depth)),
        "indexVectorDim": 1,
        "updateComputationSubgraphIndex": _computation(context, data.dtype, reduction),
    }
    return context.emit("STABLEHLO_SCATTER", [data, rows, windows], data.shape, options=options)


def _with_one_beside(context: Context, rows: Tensor, windows: Tensor) -> tuple[Tensor, Tensor]:
    """One row more, of an index that is passed over: the kernel reads one even of no rows."""
    depth = rows.shape[1]
    far = context.constant(np.full((1, int(depth)), _FAR, rows.dtype.numpy()))
    window = (1, *windows.shape[1:])
    zero = build.scalar(context, 0, windows)
    blank = context.emit("FILL", [context.sizes(window), zero], window, windows.dtype)
    name = f"{context.node}?rows+1"
    return (
        context.joined([rows, far], 0, (name, depth)),
        context.joined([windows, blank], 0, (name, *window[1:])),
    )


def _computation(context: Context, dtype: DataType, reduction: str) -> int:
    """The number of a graph that says what becomes of an element and its update."""
    graph = Subgraph(f"{context.node}_{reduction}")
    old, new = (Tensor(context.program.name(name), (), dtype) for name in ("element", "update"))
    graph.inputs, graph.outputs = [old, new], [new]
    if reduction in _COMPUTATIONS:
        made = Tensor(context.program.name("updated"), (), dtype)
        graph.operators.append(Operator(_COMPUTATIONS[reduction], [old, new], [made]))
        graph.outputs = [made]
    elif reduction != "none":
        raise Refused(f"a reduction {reduction!r}")
    return add(graph, context)


def _longs(numbers: range) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(list(numbers), np.int64)
