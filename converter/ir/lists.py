"""Which outputs of a graph are lists of found things: boxes, their labels and scores, row by row.

    Given:   best, at = TopK (scores)      boxes = Gather (all, at): [found, 4]      labels: [found]
    Result:  best, boxes and labels tell of the same rows

How many rows there are hangs on values, or is what a TopK was asked for; either way an operator
that chooses (:data:`~converter.ir.facts.CHOOSES`) has a part in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir

from converter.ir.dependence import graphs_in, taken
from converter.ir.facts import CHOOSES
from converter.ir.model import spec_of
from converter.ir.symbols import symbols_of


@dataclass(frozen=True)
class Rows:
    """Outputs that tell of the same rows.

    Attributes:
        outputs: Their names, in the graph's order.
        axis: The rows': 0, or 1 where there is a list for each item of a batch.
    """

    outputs: tuple[str, ...]
    axis: int


@dataclass(frozen=True)
class _Listed:
    """An output that may be a list; ``size`` is None where it is free, ``chosen`` has a bit for
    each node that chooses and has a part in it."""

    name: str
    axis: int
    size: int | None
    chosen: int
    is_score: bool

    def belongs(self, other: _Listed) -> bool:
        """Whether both tell of the same rows: what is made of a list is chosen by more nodes."""
        common = self.chosen & other.chosen
        alike = (self.axis, self.size) == (other.axis, other.size)
        return alike and common in (self.chosen, other.chosen)


def lists_of(graph: onnx_ir.Graph) -> list[Rows]:
    """The lists among the outputs; only those with scores, floats of one number a row."""
    chosen, sizes = _chosen(graph)
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    given = {name for value in inputs for name in _names(value)}
    groups: list[list[_Listed]] = []
    for value in graph.outputs:
        item = _listed(value, chosen.get(value, 0), sizes, given)
        if item is None:
            continue
        group = next((group for group in groups if any(map(item.belongs, group))), None)
        if group is None:
            groups.append([item])
        else:
            group.append(item)
    return [
        Rows(tuple(item.name for item in group), group[0].axis)
        for group in groups
        if len(group) > 1 and any(item.is_score for item in group)
    ]


def _listed(
    value: onnx_ir.Value, chosen: int, sizes: Sequence[set[int]], given: set[str]
) -> _Listed | None:
    spec, free = spec_of(value), dict(symbols_of(value))
    for axis, size in enumerate((spec.shape or ())[:2]):
        if axis in free:
            by, known = (0 if _parts(free[axis]) & given else chosen), None
        else:
            by = sum(1 << at for at, asked in enumerate(sizes) if size in asked) & chosen
            known = int(size)
        if by and known != 1:
            return _Listed(spec.name, axis, known, by, spec.is_float and spec.rank == axis + 1)
    return None


def _names(value: onnx_ir.Value) -> set[str]:
    return {part for _, name in symbols_of(value) for part in _parts(name)}


def _parts(name: str | None) -> set[str]:
    """The symbols in a dimension's name, which may be an expression: ``2*batch``."""
    return set(re.findall(r"[A-Za-z_]\w*", name or ""))


def _chosen(graph: onnx_ir.Graph) -> tuple[dict[onnx_ir.Value, int], list[set[int]]]:
    """For each value, the nodes that choose and have a part in it, as bits; and for each of
    those, how many a TopK gives where that is fixed."""
    parts: dict[onnx_ir.Value, int] = {}
    sizes: list[set[int]] = []
    for node in graph:
        part = 0
        for value in taken(node):
            part |= parts.get(value, 0)
        choosing = [item for item in _within(node) if item.op_type in CHOOSES]
        if choosing:
            part |= 1 << len(sizes)
            sizes.append({size for item in choosing if (size := _asked(item)) is not None})
        parts.update(dict.fromkeys(node.outputs, part))
    return parts, sizes


def _within(node: onnx_ir.Node) -> Iterator[onnx_ir.Node]:
    """The node and those of the graphs inside it."""
    yield node
    for attribute in node.attributes.values():
        for inside in graphs_in(attribute):
            yield from onnx_ir.traversal.RecursiveGraphIterator(inside)


def _asked(node: onnx_ir.Node) -> int | None:
    shape = node.outputs[0].shape
    if node.op_type != "TopK" or shape is None:
        return None
    axis = node.attributes.get("axis")
    size = shape[axis.as_int() if axis else -1]
    return size if isinstance(size, int) else None
