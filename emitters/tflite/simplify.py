"""Makes a lowered graph smaller without changing what it computes.

1. A RELU, RELU6 or RELU_N1_TO_1 behind an operator that can clip by itself becomes part of it,
   also where the numbers are moved about in between.
2. A RESHAPE of a RESHAPE, and one that changes nothing, become one or none; they come behind
   what works element by element.
3. TRANSPOSEs of TRANSPOSEs likewise.
4. A QUANTIZE of a DEQUANTIZE of the same scale and type becomes none, as does a CAST of a CAST
   that gives what was there before. GATHER takes indices as they were before they became int64.
5. What nothing uses is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emitters.tflite.build import FUSED
from emitters.tflite.graph import Operator, Subgraph, Tensor, makers_of, uses_of
from emitters.tflite.sink_reshapes import sink_reshapes

CLIPPING = frozenset(
    {"ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "CONV_3D", "DEPTHWISE_CONV_2D", "DIV",
     "FULLY_CONNECTED", "L2_POOL_2D", "MAX_POOL_2D", "MUL", "SUB", "TRANSPOSE_CONV"}
)  # fmt: skip
"""Operators with a ``fusedActivationFunction`` that their kernels honour. CONCATENATION has one
that LiteRT refuses to be anything but NONE, so it isn't used there."""

_CLIPPING = CLIPPING - {"CONCATENATION"}
_ACTIVATIONS = ("RELU", "RELU6", "RELU_N1_TO_1")
_FLOATING = ("FLOAT",)
_MOVING = frozenset(
    {"DEPTH_TO_SPACE", "EXPAND_DIMS", "RESHAPE", "SLICE", "SPACE_TO_DEPTH", "SQUEEZE",
     "STRIDED_SLICE", "TRANSPOSE"}
)  # fmt: skip
"""Operators whose outputs hold numbers of their first input."""


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
    outputs, fused = set(graph.outputs), set()

    def lone(tensor: Tensor | None) -> Operator | None:
        """What makes a tensor that one operator uses, and nothing else."""
        alone = tensor is not None and tensor not in outputs and len(uses[tensor]) == 1
        return makers.get(tensor) if alone and tensor is not None else None

    for operator in graph.operators:
        if operator.op not in _ACTIVATIONS:
            continue
        source = operator.inputs[0]
        assert source is not None
        last = maker = lone(source)
        while maker is not None and maker.op in _MOVING and source.quant is None:
            maker = lone(maker.inputs[0])
        if maker is None or last is None or maker.op not in _CLIPPING:
            continue
        if maker.options.get("fusedActivationFunction", 0) != 0:
            continue
        if not _can_clip(maker.outputs[0], operator.outputs[0]):
            continue
        maker.options["fusedActivationFunction"] = FUSED[operator.op]
        last.outputs = [operator.outputs[0]]
        makers[operator.outputs[0]] = last
        fused.add(operator)
    graph.operators = [operator for operator in graph.operators if operator not in fused]


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
    """RESHAPEs and TRANSPOSEs behind one another, and what does nothing."""
    makers, outputs = makers_of(graph), set(graph.outputs)
    instead: dict[Tensor, Tensor] = {}
    kept: list[Operator] = []
    for operator in graph.operators:
        operator.inputs = [None if t is None else instead.get(t, t) for t in operator.inputs]
        while _join(operator, makers):
            pass
        if operator.op == "GATHER":
            operator.inputs[1] = _before_cast(operator.inputs[1], makers, "INT32")
        source = _unchanged(operator, makers)
        if source is None or operator.outputs[0] in outputs:
            kept.append(operator)
        else:
            instead[operator.outputs[0]] = source
    graph.operators = kept


def _join(operator: Operator, makers: dict[Tensor, Operator]) -> bool:
    join = _JOINS.get(operator.op)
    source = operator.inputs[0] if operator.inputs else None
    if join is None or source is None:
        return False
    maker = makers.get(source)
    if maker is None or maker.op != operator.op or maker.inputs[0] is None:
        return False
    return join(operator, maker)


def _unchanged(operator: Operator, makers: dict[Tensor, Operator]) -> Tensor | None:
    """The tensor that an operator gives as it is; None where it changes something."""
    source = operator.inputs[0] if operator.inputs else None
    if source is None:
        return None
    result = operator.outputs[0]
    if operator.op == "QUANTIZE":
        return _stored_before(makers.get(source), result)
    if operator.op == "CAST":
        before = _before_cast(source, makers, result.dtype.name)
        return before if before is not source else None
    if operator.op not in _JOINS or source.shape != result.shape:
        return None
    if operator.op == "RESHAPE":
        return source
    perm = operator.inputs[1]
    same = perm is not None and perm.data is not None and list(perm.data) == sorted(perm.data)
    return source if same else None


def _before_cast(x: Tensor | None, makers: dict[Tensor, Operator], dtype: str) -> Tensor | None:
    """What a CAST of that type made ``x`` of, where that is of the same kind and no wider; else
    ``x``."""
    maker = makers.get(x) if x is not None else None
    before = maker.inputs[0] if maker is not None and maker.op == "CAST" else None
    if x is None or before is None or before.dtype.name != dtype:
        return x
    old, new = before.dtype.numpy(), x.dtype.numpy()
    return before if old.kind == new.kind and np.can_cast(old, new) else x


def _stored_before(maker: Operator | None, result: Tensor) -> Tensor | None:
    """The integers that a DEQUANTIZE was given, where they are what is wanted."""
    if maker is None or maker.op != "DEQUANTIZE":
        return None
    stored = maker.inputs[0]
    if stored is None or stored.quant is None or stored.dtype != result.dtype:
        return None
    return stored if stored.quant.same(result.quant) else None


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
