"""ScatterElements and ScatterND.

MIL's modes are ONNX's reductions; each update changes what those before it left, so that indices
may come more than once.
"""

from __future__ import annotations

from typing import Any

import onnx_ir

from converter.graph.attributes import number, text
from emitters.coreml import sizing
from emitters.coreml.context import Context, Var, free
from emitters.coreml.indices import element_vectors, from_start, vectors_from_start
from emitters.coreml.registry import lowers
from emitters.coreml.types import DataType
from emitters.lowering.refused import Refused

_MODES = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}

_WHOLE = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.INT32, DataType.INT64})
"""Types whose sums and products are right in what holds them."""


@lowers("ScatterElements")
def scatter_elements(context: Context, node: onnx_ir.Node) -> None:
    """scatter_along_axis; where the indices are fewer along other axes than the data,
    scatter_nd."""
    data, indices, updates = (context.var(value) for value in node.inputs[:3])
    if not data.shape:
        raise Refused("a ScatterElements into a tensor without axes")
    mode = _mode(context, node)
    axis = number(node, "axis", 0) % len(data.shape)
    indices = from_start(context, indices, sizing.size(context, data, axis))
    others = [a for a in range(len(data.shape)) if a != axis]
    constant = all(var.val is not None for var in (data, indices, updates))
    if constant or any(data.shape[a] != indices.shape[a] for a in others):
        # coremltools' own folding of scatter_along_axis takes every mode for "update"
        vectors = element_vectors(context, indices, axis)
        flat = sizing.reshape(context, updates, [-1])
        made = _scattered(context, "scatter_nd", data, vectors, flat, mode=mode)
    else:
        made = _scattered(
            context, "scatter_along_axis", data, indices, updates, mode=mode, axis=axis
        )
    context.give(node.outputs[0], made)


@lowers("ScatterND")
def scatter_nd(context: Context, node: onnx_ir.Node) -> None:
    """scatter_nd; indices count from the start."""
    data, indices, updates = (context.var(value) for value in node.inputs[:3])
    depth = indices.shape[-1]
    if free(depth):
        raise Refused("a ScatterND at indices whose length isn't known", "fix it (--input)")
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
