"""ScatterElements and ScatterND.

MIL's modes are ONNX's reductions; each update changes what those before it left, so that indices
may come more than once.
"""

from __future__ import annotations

from typing import Any

import onnx_ir

from converter.ir.attributes import number, text
from converter.ir.edit import constant_tensor
from converter.ir.refused import Refused
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.indices import from_start, vectors_from_start
from emitters.coreml.registry import lowers
from emitters.coreml.types import DataType

_MODES = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}

_WHOLE = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.INT32, DataType.INT64})
"""Types whose sums and products are right in what holds them."""


def _alike(node: onnx_ir.Node, _target: int) -> bool:
    """Whether the indices are as many as the data along other axes, and something is computed:
    coremltools' own folding of scatter_along_axis takes every mode for "update"."""
    data, indices = node.inputs[:2]
    if data is None or indices is None or data.shape is None or indices.shape is None:
        return False
    axis = number(node, "axis", 0) % max(len(data.shape), 1)
    pairs = enumerate(zip(data.shape, indices.shape, strict=True))
    constant = all(constant_tensor(value) is not None for value in node.inputs[:3])
    return not constant and all(a == axis or one == other for a, (one, other) in pairs)


@lowers("ScatterElements", legal=_alike)
def scatter_elements(context: Context, node: onnx_ir.Node) -> None:
    """scatter_along_axis."""
    data, indices, updates = (context.var(value) for value in node.inputs[:3])
    axis = number(node, "axis", 0) % len(data.shape)
    indices = from_start(context, indices, sizing.size(context, data, axis))
    settings = {"mode": _mode(context, node), "axis": axis}
    made = _scattered(context, "scatter_along_axis", data, indices, updates, **settings)
    context.give(node.outputs[0], made)


@lowers("ScatterND")
def scatter_nd(context: Context, node: onnx_ir.Node) -> None:
    """scatter_nd; indices count from the start."""
    data, indices, updates = (context.var(value) for value in node.inputs[:3])
    depth = indices.shape[-1]
    if free(depth):
        raise Refused("a ScatterND with indices of unknown length", "fix it (--input)")
    dims = [sizing.size(context, data, axis) for axis in range(int(depth))]
    indices = vectors_from_start(context, indices, dims)
    mode = _mode(context, node)
    made = _scattered(context, "scatter_nd", data, indices, updates, mode=mode)
    context.give(node.outputs[0], made)


def _mode(context: Context, node: onnx_ir.Node) -> str:
    reduction = text(node, "reduction", "none")
    dtype = context.dtype(node.inputs[0])
    if reduction in ("add", "mul") and dtype not in _WHOLE:
        raise Refused(f"a reduction {reduction} of {dtype.name.lower()}, which may wrap around")
    return _MODES[reduction]


def _scattered(
    context: Context, kind: str, data: Var, indices: Var, updates: Var, **settings: Any
) -> Var:
    """What an operation of the scatter family gives; none of them takes booleans."""
    boolean = context.type_of(data) == "bool"
    if boolean:
        data, updates = context.cast(data, "int32"), context.cast(updates, "int32")
    made = context.op(kind, data=data, indices=indices, updates=updates, **settings)
    return context.cast(made, "bool") if boolean else made
