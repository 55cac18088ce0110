"""Fewer nodes that only move elements about.

1. A Reshape whose target is computed, where the result's shape is known: the target becomes a
   constant, and what computes it goes. A free dimension that stays where it was is 0 in it, one
   more may be -1.
2. Reshape, Flatten, Squeeze and Unsqueeze (and a Transpose that moves axes of size 1 alone), two
   in a row: one Reshape, or nothing where the shape is what it was before.
3. Slice of a Slice along other axes: one Slice.
4. Expand before an elementwise operator that stretches its inputs the same way: nothing.
5. Expand of the indices of a Gather before such an operator: nothing.

Shapes are the declared ones, which the pipeline has repaired before; a symbol stands for one
size wherever it appears. Pairs of Transposes and Casts are :mod:`.merge`'s, in the pass cleanup,
as nodes that are there twice; Transposes farther apart are the pass transposes'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import onnx_ir
from onnx_ir.passes import PassResult

from converter.ir.attributes import number
from converter.ir.edit import (
    all_nodes,
    attribute_ints,
    constant_tensor,
    integers,
    is_op,
    static_shape,
)
from converter.ir.facts import BROADCASTS, RESHAPES
from converter.ir.inference import infer
from converter.passes.fuse.patterns import (
    Edit,
    FusePass,
    Rule,
    input_of,
    only_used_by,
    producer,
)

Dims = list[int | str | None]


def target_of(source: Dims, result: Dims) -> list[int] | None:
    """The second input of a Reshape from one shape to another; None where none says it."""
    target: list[int] = []
    for axis, dim in enumerate(result):
        if isinstance(dim, int):
            target.append(dim)
        elif dim is not None and axis < len(source) and source[axis] == dim:
            target.append(0)
        else:
            target.append(-1)
    unsaid = target.count(-1) > 1 or any(dim == 0 for dim in (*source, *result))
    return None if unsaid else target


def _same(one: Dims, other: Dims) -> bool:
    """Whether two shapes of the same elements are one: equal but for one size that follows."""
    if len(one) != len(other) or 0 in one:
        return False
    unsure = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1] or None in pair]
    return len(unsure) < 2 and not any(isinstance(a, int) and isinstance(b, int) for a, b in unsure)


def only_reshapes(node: onnx_ir.Node) -> bool:
    """Whether a node leaves all elements in order."""
    if is_op(node, *RESHAPES):
        return True
    shape, perm = static_shape(node.inputs[0]), attribute_ints(node, "perm")
    if not is_op(node, "Transpose") or shape is None or perm is None:
        return False
    moved = [axis for axis in perm if shape[axis] != 1]
    return moved == sorted(moved)


@dataclass(frozen=True)
class Reshaped:
    """What a chain of nodes makes of ``source`` by reshaping it.

    Attributes:
        root: The last of them.
        source: What goes in.
    """

    root: onnx_ir.Node
    source: onnx_ir.Value


class KnownTarget(Rule[Reshaped]):
    """Case 1."""

    name = "known-target"
    roots = frozenset({"Reshape"})

    def pattern(self, node: onnx_ir.Node) -> Reshaped | None:
        """A Reshape to what isn't constant."""
        if constant_tensor(input_of(node, 1)) is not None or node.inputs[0] is None:
            return None
        return Reshaped(node, node.inputs[0])

    def check(self, match: Reshaped) -> str:
        """Whether the shapes say it."""
        return _unknown(match)

    def rewrite(self, match: Reshaped, edit: Edit) -> None:
        """A Reshape to a constant."""
        edit.replace(match.root, _reshape(match, edit))


def _unknown(match: Reshaped) -> str:
    source, result = static_shape(match.source), static_shape(match.root.outputs[0])
    if source is None or result is None:
        return "its shapes aren't known"
    if target_of(source, result) is None:
        return f"no target says how {source} becomes {result}"
    return ""


def _reshape(match: Reshaped, edit: Edit) -> onnx_ir.Node:
    source, result = static_shape(match.source), static_shape(match.root.outputs[0])
    assert source is not None and result is not None
    target = np.array(target_of(source, result), np.int64)
    shape = edit.constant(target, f"{match.root.name}_shape")
    return onnx_ir.node("Reshape", [match.source, shape])


class Chain(Rule[Reshaped]):
    """Case 2."""

    name = "reshape-chain"
    roots = RESHAPES | {"Transpose"}

    def pattern(self, node: onnx_ir.Node) -> Reshaped | None:
        """Two nodes in a row that reshape, the first for the second alone."""
        first = node.inputs[0].producer() if node.inputs[0] is not None else None
        if first is None or not first.inputs or first.inputs[0] is None:
            return None
        alone = only_used_by(first.outputs[0], [node]) and first.graph is node.graph
        if not alone or not only_reshapes(node) or not only_reshapes(first):
            return None
        return Reshaped(node, first.inputs[0])

    def check(self, match: Reshaped) -> str:
        """Whether the shapes say it."""
        return _unknown(match)

    def rewrite(self, match: Reshaped, edit: Edit) -> None:
        """One Reshape, or none."""
        if _same(static_shape(match.source) or [], static_shape(match.root.outputs[0]) or []):
            edit.bypass(match.root, match.source)
        else:
            edit.replace(match.root, _reshape(match, edit))


@dataclass(frozen=True)
class Slices:
    """A Slice of a Slice."""

    first: onnx_ir.Node
    second: onnx_ir.Node


class SliceOfSlice(Rule[Slices]):
    """Case 3."""

    name = "slice-of-slice"
    roots = frozenset({"Slice"})

    def pattern(self, node: onnx_ir.Node) -> Slices | None:
        """Two in a row, the first for the second alone."""
        first = node.inputs[0].producer() if node.inputs[0] is not None else None
        if first is None or not is_op(first, "Slice") or first.graph is not node.graph:
            return None
        return Slices(first, node) if only_used_by(first.outputs[0], [node]) else None

    def check(self, match: Slices) -> str:
        """Whether all numbers are known, and no axis is sliced twice."""
        first, second = _slices(match.first), _slices(match.second)
        if first is None or second is None:
            return "where they begin and end isn't constant"
        if {axis for axis, *_ in first} & {axis for axis, *_ in second}:
            return "both slice one axis"
        return ""

    def rewrite(self, match: Slices, edit: Edit) -> None:
        """One Slice along the axes of both."""
        rows = [*(_slices(match.first) or []), *(_slices(match.second) or [])]
        base = match.second.name
        inputs = [match.first.inputs[0]]
        for column, name in ((1, "starts"), (2, "ends"), (0, "axes"), (3, "steps")):
            numbers = np.array([row[column] for row in rows], np.int64)
            inputs.append(edit.constant(numbers, f"{base}_{name}"))
        edit.replace(match.second, onnx_ir.node("Slice", inputs))


def _slices(node: onnx_ir.Node) -> list[tuple[int, int, int, int]] | None:
    """Axis, start, end and step of each axis that is sliced; None where they aren't known."""
    shape = static_shape(node.inputs[0])
    columns = [integers(input_of(node, index)) for index in (1, 2, 3, 4)]
    starts, ends, axes, steps = columns
    missing = [
        column is None and input_of(node, index) is not None
        for index, column in enumerate(columns, 1)
    ]
    if shape is None or starts is None or ends is None or any(missing):
        return None
    axes = [axis % len(shape) for axis in axes or range(len(starts))]
    return list(zip(axes, starts, ends, steps or [1] * len(axes), strict=True))


@dataclass(frozen=True)
class Stretched:
    """An Expand before an operator that stretches by itself, or before a Gather's indices that
    such an operator takes the result of."""

    expand: onnx_ir.Node
    root: onnx_ir.Node
    gather: onnx_ir.Node | None = None

    @property
    def taken(self) -> onnx_ir.Value:
        """What the operator takes."""
        return (self.gather or self.expand).outputs[0]

    def shape(self) -> Dims | None:
        """What it takes without the Expand; None where that isn't known."""
        source, whole = static_shape(self.expand.inputs[0]), static_shape(self.expand.outputs[0])
        if self.gather is None or source is None:
            return source
        data = static_shape(self.gather.inputs[0])
        axis = number(self.gather, "axis", 0)
        if data is None or whole is None or (axis and len(source) < len(whole)):
            return None  # or the axes before would be others
        axis %= len(data)
        return [*data[:axis], *source, *data[axis + 1 :]]


class ExpandBefore(Rule[Stretched]):
    """Cases 4 and 5."""

    name = "expand-before-elementwise"
    roots = BROADCASTS

    def pattern(self, node: onnx_ir.Node) -> Stretched | None:
        """One of the inputs is an Expand, or a Gather by one."""
        for value in node.inputs:
            gather = producer(value, "Gather")
            expand = producer(gather.inputs[1] if gather is not None else value, "Expand")
            if expand is not None:
                return Stretched(expand, node, gather)
        return None

    def check(self, match: Stretched) -> str:
        """Whether the result is as large from the other inputs and what is expanded alone."""
        expanded = match.expand.outputs[0]
        for made, user in (expanded, match.gather or match.root), (match.taken, match.root):
            if not only_used_by(made, [user]):
                return f"{made.name} is used elsewhere too"
        result = static_shape(match.root.outputs[0])
        shapes = [
            match.shape() if value is match.taken else static_shape(value)
            for value in match.root.inputs
        ]
        if result is None or any(shape is None for shape in shapes):
            return "its shapes aren't known"
        if _broadcast([shape for shape in shapes if shape is not None]) != result:
            return f"without it the result isn't known to be {result}"
        return ""

    def rewrite(self, match: Stretched, edit: Edit) -> None:
        """The operator, or the Gather, on what was expanded."""
        old, source = match.taken, match.expand.inputs[0]
        if match.gather is not None:
            inputs, attributes = [match.gather.inputs[0], source], match.gather.attributes
            new = onnx_ir.node("Gather", inputs, attributes, name=match.gather.name)
            source = edit.insert(match.root, new, like=old)
            source.shape = onnx_ir.Shape(match.shape() or [])
        for index, value in enumerate(match.root.inputs):
            if value is old:
                match.root.replace_input_with(index, source)
        edit.drop([old])


def _broadcast(shapes: Sequence[Dims]) -> Dims | None:
    """The shape that these have together by ONNX's rule; None where it isn't known."""
    rank = max(len(shape) for shape in shapes)
    result: Dims = []
    for axis in range(-rank, 0):
        dims = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(dims) > 1 or None in dims:
            return None
        result.append(dims.pop() if dims else 1)
    return result


class FuseShapes(FusePass):
    """Applies the module's rules."""

    name = "fuse-shapes"
    summary = "computed targets become constants; reshapes, slices and expansions in a row one"
    rules: ClassVar[Sequence[Rule[Any]]] = (
        KnownTarget(),
        Chain(),
        SliceOfSlice(),
        ExpandBefore(),
    )

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Gives inner values without a shape the one that follows, and applies the rules."""
        values = [out for node in all_nodes(model) for out in node.outputs]
        if any(value.shape is None for value in values):
            for value, known in infer(model).items():
                if value.shape is None and known.shape is not None and not value.is_graph_output():
                    value.shape, value.type = known.shape, value.type or known.type
        return super().call(model)
