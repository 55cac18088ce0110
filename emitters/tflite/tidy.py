"""Makes a lowered graph smaller without changing what it computes.

1. A RELU, RELU6 or RELU_N1_TO_1 behind an operator that can clip by itself becomes part of it.
2. A RESHAPE of a RESHAPE, and one that changes nothing, become one or none; they come behind
   what works element by element.
3. TRANSPOSEs of TRANSPOSEs likewise.
4. What nothing uses is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from emitters.tflite.build import FUSED
from emitters.tflite.graph import Operator, Subgraph, Tensor, makers_of, uses_of
from emitters.tflite.sink import sink_reshapes

CLIPPING = frozenset(
    {"ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "DIV",
     "FULLY_CONNECTED", "L2_POOL_2D", "MAX_POOL_2D", "MUL", "SUB", "TRANSPOSE_CONV"}
)  # fmt: skip
"""Operators with a ``fusedActivationFunction`` that their kernels honour. CONCATENATION has one
that LiteRT refuses to be anything but NONE, so it isn't used there."""

_CLIPPING = CLIPPING - {"CONCATENATION"}
_ACTIVATIONS = ("RELU", "RELU6", "RELU_N1_TO_1")
_FLOATING = ("FLOAT",)


def tidy(graph: Subgraph) -> None:
    """Changes the graph in place."""
    for step in (drop_unused, _gather_moves, _fuse_activations, drop_unused):
        step(graph)


def drop_unused(graph: Subgraph) -> None:
    """Drops the operators that no output needs."""
    wanted = set(graph.outputs)
    kept: list[Operator] = []
    for operator in reversed(graph.operators):
        if operator.op in _EFFECTS or any(tensor in wanted for tensor in operator.outputs):
            kept.append(operator)
            wanted.update(tensor for tensor in operator.inputs if tensor is not None)
    graph.operators = kept[::-1]


_EFFECTS = frozenset({"ASSIGN_VARIABLE"})


def _fuse_activations(graph: Subgraph) -> None:
    makers, uses = makers_of(graph), uses_of(graph)
    outputs = set(graph.outputs)
    for operator in list(graph.operators):
        if operator.op not in _ACTIVATIONS:
            continue
        source = operator.inputs[0]
        assert source is not None
        maker = makers.get(source)
        if maker is None or maker.op not in _CLIPPING or source in outputs:
            continue
        if len(uses[source]) != 1 or maker.options.get("fusedActivationFunction", 0) != 0:
            continue
        if not _can_clip(source, operator.outputs[0]):
            continue
        maker.options["fusedActivationFunction"] = FUSED[operator.op]
        maker.outputs = [operator.outputs[0]]
        makers[operator.outputs[0]] = maker
        graph.operators.remove(operator)


def _can_clip(before: Tensor, after: Tensor) -> bool:
    """Whether the kernel that makes ``before`` can clip: floats, or integers of one scale."""
    if before.quant is None:
        return before.dtype.name in _FLOATING
    return before.quant.same(after.quant)


def _gather_moves(graph: Subgraph) -> None:
    """RESHAPEs moved behind what works element by element, and joined there."""
    _join_moves(graph)
    while sink_reshapes(graph):
        _join_moves(graph)
        drop_unused(graph)


def _join_moves(graph: Subgraph) -> None:
    """RESHAPEs and TRANSPOSEs behind one another."""
    changed = True
    while changed:
        makers = makers_of(graph)
        changed = any(_join(operator, makers, graph) for operator in list(graph.operators))


def _join(operator: Operator, makers: dict[Tensor, Operator], graph: Subgraph) -> bool:
    join = _JOINS.get(operator.op)
    source = operator.inputs[0] if operator.inputs else None
    if join is None or source is None:
        return False
    if source.shape == operator.outputs[0].shape and _does_nothing(operator):
        return _replace(operator, source, graph)
    maker = makers.get(source)
    if maker is None or maker.op != operator.op or maker.inputs[0] is None:
        return False
    return join(operator, maker)


def _does_nothing(operator: Operator) -> bool:
    if operator.op == "RESHAPE":
        return True
    perm = operator.inputs[1]
    return perm is not None and perm.data is not None and list(perm.data) == sorted(perm.data)


def _replace(operator: Operator, source: Tensor, graph: Subgraph) -> bool:
    """Has ``source`` used instead of what ``operator`` makes; not where that is an output."""
    made = operator.outputs[0]
    if made in graph.outputs:
        return False
    for other in graph.operators:
        if made in other.inputs:
            other.inputs = [source if tensor is made else tensor for tensor in other.inputs]
    graph.operators.remove(operator)
    return True


def _join_reshapes(operator: Operator, maker: Operator) -> bool:
    operator.inputs[0] = maker.inputs[0]
    return True


def _join_transposes(operator: Operator, maker: Operator) -> bool:
    first, second = maker.inputs[1], operator.inputs[1]
    if first is None or second is None or first.data is None or second.data is None:
        return False
    perm = first.data[second.data]
    operator.inputs[0] = maker.inputs[0]
    operator.inputs[1] = Tensor(f"{second.name}_joined", second.shape, second.dtype, perm)
    return True


_JOINS: dict[str, Callable[[Operator, Operator], bool]] = {
    "RESHAPE": _join_reshapes,
    "TRANSPOSE": _join_transposes,
}
