"""Masks before a Softmax: ``finfo.min`` where nothing may be looked at, in half a precision.

    Given:   Softmax(scores + Where(hidden, -3.4e38, 0))
    Result:  Softmax(Where(Where(hidden, -49152, 0) < -24576, -49152, scores))

In float32 the sentinel swallows whatever score is added to it, and its exponential is zero; in a
row that is hidden altogether all are equal, and the Softmax gives equal shares. In float16 it would
be -inf, and such a row NaN. A smaller sentinel alone isn't enough: where a runtime adds in float32
all the same, -49152 swallows nothing. So the score is replaced, which is the same everywhere.

It is the same only if nothing but a Softmax sees the mask, and if it holds nothing but zeros
and the sentinel; anything else stays as it is, in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir

from converter.graph.edit import add_constant, constant, is_op, replace
from converter.graph.facts import MOVES
from converter.quantize.half_types import is_float32
from converter.quantize.half_weights import Format

Largest = Callable[[onnx_ir.Value | None], float | None]
"""The largest magnitude that a value was seen to have; None where it wasn't measured."""

SENTINEL = {"float16": -49152.0, "bfloat16": -(2.0**126)}
"""Far below every score that is lowered, and far from the largest number."""

PASSED_ON = MOVES - {"Split"}  # one output alone is followed


@dataclass
class Masks:
    """The masks of a model.

    Attributes:
        held: Values that hold the sentinel and may be in half a precision all the same.
        changed: Names of the nodes whose constant was replaced.
    """

    held: set[onnx_ir.Value] = field(default_factory=set)
    changed: list[str] = field(default_factory=list)


@dataclass
class _Path:
    """What a mask goes through up to its Softmax."""

    values: list[onnx_ir.Value] = field(default_factory=list)
    sums: list[tuple[onnx_ir.Node, int]] = field(default_factory=list)
    scores: list[onnx_ir.Value | None] = field(default_factory=list)


def clamp_masks(model: onnx_ir.Model, largest: Largest, into: Format) -> Masks:
    """Replaces sentinels that half a precision can't hold, where the result is the same.

    Args:
        model: With all types set; changed in place.
        largest: What was measured.
        into: The format.
    """
    masks = Masks()
    limit = -into.largest / 4
    for graph in list(model.graphs()):
        for value in list(graph.initializers.values()):
            if not value.is_graph_input() and is_float32(value) and _near_a_mask(value):
                _clamp(value, limit, largest, into, masks)
    return masks


def _near_a_mask(value: onnx_ir.Value) -> bool:
    return any(is_op(use.node, "Where", "Add", "Mul", *PASSED_ON) for use in value.uses())


def _clamp(
    value: onnx_ir.Value, limit: float, largest: Largest, into: Format, masks: Masks
) -> None:
    assert value.const_value is not None
    array = value.const_value.numpy()
    if not array.size or not (np.isfinite(array).all() and array.min() <= limit):
        return
    hidden = array <= limit
    if not (array[~hidden] == 0).all():
        return
    for use in list(value.uses()):
        path = _Path()
        pure = _starts_pure(use.node, use.idx, largest)
        if pure is None or not _follow_use(use.node, use.idx, pure, path):
            continue
        if any((largest(scores) or 0) > -limit for scores in path.scores):
            continue
        clamped = _constant(value, np.where(hidden, np.float32(SENTINEL[into.name]), array))
        use.node.replace_input_with(use.idx, clamped)
        masks.held.update(path.values)
        chooser = _Chooser(clamped, SENTINEL[into.name])
        masks.held.update(chooser.choose(node, place) for node, place in path.sums)
        masks.changed.append(use.node.name or "")


def _starts_pure(node: onnx_ir.Node, place: int, largest: Largest) -> bool | None:
    """Whether what the node makes of the sentinel holds only it and zeros; None for no mask."""
    if is_op(node, "Where") and place in (1, 2):
        other = constant(node.inputs[3 - place])
        return other is not None and bool((other == 0).all())
    if is_op(node, "Mul"):
        return True if _zero_or_one(node.inputs[1 - place], largest) else None
    return True if is_op(node, "Add", *PASSED_ON) else None


def _zero_or_one(value: onnx_ir.Value | None, largest: Largest) -> bool:
    """Whether a value comes from booleans, or from integers that were seen to be 0 and 1."""
    node = value.producer() if value is not None else None
    if node is None or not node.inputs or node.inputs[0] is None:
        return False
    source = node.inputs[0]
    if is_op(node, "Cast"):
        kind = source.dtype
        if kind is not None and kind.is_integer() and (largest(value) or 2) <= 1:
            return True
        return kind == onnx_ir.DataType.BOOL or _zero_or_one(source, largest)
    if is_op(node, "Sub"):
        first = constant(source)
        ones = first is not None and bool((first == 1).all())
        return ones and _zero_or_one(node.inputs[1], largest)
    return is_op(node, *PASSED_ON) and _zero_or_one(source, largest)


def _follow_use(node: onnx_ir.Node, place: int, pure: bool, path: _Path) -> bool:
    """Whether the sentinel goes from this input of ``node`` to Softmaxes and nowhere else."""
    if is_op(node, "Softmax"):
        return True
    if is_op(node, "Add"):
        if not pure or node.inputs[0] is node.inputs[1]:
            return False
        path.sums.append((node, place))
        path.scores.append(node.inputs[1 - place])
        pure = False
    elif is_op(node, "Where", "Mul"):
        if path.values:  # only where it starts
            return False
        if not pure:
            path.scores.append(node.inputs[3 - place])
    elif not (is_op(node, *PASSED_ON) and place == 0):
        return False
    value = node.outputs[0]
    path.values.append(value)
    uses = list(value.uses())
    if value.is_graph_output() or not uses:
        return False
    return all(_follow_use(use.node, use.idx, pure, path) for use in uses)


def _constant(value: onnx_ir.Value, array: np.ndarray[Any, Any]) -> onnx_ir.Value:
    graph = value.graph
    assert isinstance(graph, onnx_ir.Graph)
    name = f"{value.name}_clamped"
    while name in graph.initializers:
        name += "_"
    return add_constant(graph, name, np.asarray(array, np.float32))


class _Chooser:
    """``Add(scores, mask)`` becomes ``Where(mask < sentinel / 2, sentinel, scores)``."""

    def __init__(self, clamped: onnx_ir.Value, sentinel: float) -> None:
        self._half = _constant(clamped, np.asarray(sentinel / 2))
        self._whole = _constant(clamped, np.asarray(sentinel))
        self._hidden: dict[onnx_ir.Value, onnx_ir.Value] = {}

    def choose(self, node: onnx_ir.Node, place: int) -> onnx_ir.Value:
        """Replaces the node; gives its result."""
        mask, scores = node.inputs[place], node.inputs[1 - place]
        assert mask is not None
        if mask not in self._hidden:
            self._hidden[mask] = self._compared(mask, node)
        where = onnx_ir.node("Where", [self._hidden[mask], self._whole, scores])
        replace(node, where)
        return where.outputs[0]

    def _compared(self, mask: onnx_ir.Value, reader: onnx_ir.Node) -> onnx_ir.Value:
        less = onnx_ir.node("Less", [mask, self._half], name=f"{mask.name}_hides")
        made = less.outputs[0]
        made.name, made.shape = f"{mask.name}_hides", mask.shape
        made.type = onnx_ir.TensorType(onnx_ir.DataType.BOOL)
        producer = mask.producer()
        if producer is not None and producer.graph is not None:
            producer.graph.insert_after(producer, less)
        else:  # a constant
            graph = mask.graph
            assert isinstance(graph, onnx_ir.Graph)
            graph.insert_before(graph[0], less)
        return made
