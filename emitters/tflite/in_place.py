"""Keeps LiteRT from computing in place over numbers that are still to be read.

Its planner (``arena_planner.cc``, ``IdentifyInPlaceTensors``) has some operators write over their
input, where nothing else takes that input, nor the tensor whose memory it is. It doesn't look at
what lies between these two:

    a = CONV_2D(..)   b = MUL(a, k)   c = RESHAPE(b)   d = SOFTMAX(c)   e = RESHAPE(b)

b is written over a, c is b, and d is written over c, since nothing else takes c or a: e has d's
numbers. A copy of c ahead of d makes them two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from emitters.tflite.graph import DataType, Operator, Subgraph, Tensor, known, makers_of, uses_of

_VIEWS = frozenset({"BITCAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
"""Operators whose output is their first input, in the same memory."""

_OVERWRITING = {"ADD": 2, "DIV": 2, "DYNAMIC_UPDATE_SLICE": 1, "MUL": 2, "SOFTMAX": 1, "SUB": 2}
"""Operators that may write over an input, and which of their inputs: the first so many."""


def keep_apart(graph: Subgraph) -> None:
    """Adds a TRANSPOSE that changes nothing, which is a copy, where it is needed."""
    makers, uses = makers_of(graph), uses_of(graph)
    places = {operator: place for place, operator in enumerate(graph.operators)}
    made: list[Operator] = []
    for operator in graph.operators:
        for index in range(_OVERWRITING.get(operator.op, 0)):
            view = operator.inputs[index]
            if view is None or operator.inputs.count(view) > 1:
                continue
            if not _may_hold(view, operator.outputs[0]):
                continue
            viewed = _shared(view, makers, uses)
            if viewed is not None and _is_read_after(viewed, operator, uses, places):
                made.append(_copy(view, operator.node))
                operator.inputs[index] = made[-1].outputs[0]
        made.append(operator)
    graph.operators = made


def _may_hold(before: Tensor, after: Tensor) -> bool:
    """Whether both have as many bytes, or may have once free dimensions are known."""
    sizes, others = known(before.shape), known(after.shape)
    if before.is_constant or before.dtype.itemsize != after.dtype.itemsize:
        return False
    return sizes is None or others is None or np.prod(sizes) == np.prod(others)


def _shared(
    view: Tensor, makers: Mapping[Tensor, Operator], uses: Mapping[Tensor, Sequence[Operator]]
) -> Tensor | None:
    """What a tensor that nothing else takes is a view of, where other operators take that, and
    where that may lie in the memory of yet another tensor; else None."""
    tensor = view
    while len(uses[tensor]) == 1:
        maker = makers.get(tensor)
        if maker is None or maker.op not in _VIEWS or maker.inputs[0] is None:
            return None
        tensor = maker.inputs[0]
    maker = makers.get(tensor)
    within = maker is not None and (maker.op in _VIEWS or maker.op in _OVERWRITING)
    return tensor if within and tensor is not view else None


def _is_read_after(
    tensor: Tensor,
    operator: Operator,
    uses: Mapping[Tensor, Sequence[Operator]],
    places: Mapping[Operator, int],
) -> bool:
    """Whether an operator behind ``operator`` reads a tensor, or a view of it."""
    for use in uses.get(tensor, ()):
        if use is not operator and places[use] > places[operator]:
            return True
        if use.op in _VIEWS and _is_read_after(use.outputs[0], operator, uses, places):
            return True
    return False


def _copy(x: Tensor, node: str) -> Operator:
    axes = np.arange(x.rank, dtype=np.int32)
    perm = Tensor(f"{x.name}_axes", (x.rank,), DataType.INT32, axes)
    copied = Tensor(f"{x.name}_copied", x.shape, x.dtype, None, x.quant)
    return Operator("TRANSPOSE", [x, perm], [copied], {}, node)
