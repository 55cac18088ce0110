"""Changes a copy of a model so that ONNX's shape inference finds more in it.

Cases:
    1. A node of an inner graph takes whole numbers from an initializer of an outer one: it gets a
       constant of its own. Inference doesn't look there for the ends of a Slice, the axes of a
       Squeeze.
    2. A Slice takes all of an axis among others, ``x[:, :4]``: only the others stay. Inference
       says nothing of a free size that is sliced, even to its end.
"""

from __future__ import annotations

from itertools import count

import numpy as np
import onnx_ir

from converter.ir.edit import is_op

_FEW = 64
_END = 2**31 - 1
"""Where the ends begin with which exporters mean an axis' own."""
_WHOLE = (onnx_ir.DataType.INT64, onnx_ir.DataType.INT32)

Array = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def make_inferable(model: onnx_ir.Model) -> None:
    """Changes ``model`` in place; what it computes stays."""
    names = (f"inferable?{number}" for number in count())
    for number, graph in enumerate(list(model.graphs())):
        for node in list(graph):
            changed = _brought_in(graph, node) if number else {}
            changed |= _narrowed(node) if is_op(node, "Slice") else {}
            for place, numbers in changed.items():
                held = onnx_ir.AttrTensor("value", onnx_ir.tensor(numbers))
                made = onnx_ir.node("Constant", [], attributes={"value": held})
                made.outputs[0].name = next(names)
                graph.insert_before(node, made)
                node.replace_input_with(place, made.outputs[0])


def _brought_in(graph: onnx_ir.Graph, node: onnx_ir.Node) -> dict[int, Array]:
    """By input, the numbers that an outer graph's initializer holds."""
    found = {}
    for place, value in enumerate(node.inputs):
        if value is not None and value.is_initializer() and value.graph is not graph:
            numbers = _numbers(value)
            found.update({place: numbers} if numbers is not None else {})
    return found


def _narrowed(node: onnx_ir.Node) -> dict[int, Array]:
    """By input of a Slice that names its axes, what it is for those that it doesn't take whole."""
    given = [_numbers(value) for value in node.inputs[1:]]
    if len(given) < 3 or any(numbers is None or numbers.ndim != 1 for numbers in given):
        return {}
    starts, ends, *more = (numbers for numbers in given if numbers is not None)
    steps = more[1] if len(more) > 1 else np.ones_like(starts)
    kept = (starts != 0) | (ends < _END) | (steps != 1)
    if kept.all() or not kept.any():
        return {}
    return {place: numbers[kept] for place, numbers in enumerate((starts, ends, *more), 1)}


def _numbers(value: onnx_ir.Value | None) -> Array | None:
    """The whole numbers that a value is known to hold, where there are few."""
    tensor = value.const_value if value is not None else None
    if tensor is None or tensor.dtype not in _WHOLE or tensor.size > _FEW:
        return None
    return np.asarray(tensor.numpy(), dtype=tensor.dtype.numpy())
