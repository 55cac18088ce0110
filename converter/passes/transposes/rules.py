"""Which operators can run on permuted data, and how: a rule for each kind.

A rule stands for one node. Its label says in which order of axes the node runs: a permutation
for each permuted input and output follows from it. A node without a rule takes and gives its
tensors as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, constant, integers, is_constant, static_shape
from converter.passes.transposes.perm import Dims, Perm, identity, permuted

Label = Any
"""What a rule's permutations follow from; it can be compared and hashed."""


class Editor(Protocol):
    """What rewrites a node's small inputs."""

    def constant(self, array: np.ndarray[Any, Any], like: str) -> onnx_ir.Value:
        """A new initializer."""

    def permute_constant(self, value: onnx_ir.Value, perm: Perm) -> onnx_ir.Value:
        """An initializer of no more axes than ``perm``, as the operand of permuted data."""

    def insert(
        self, node: onnx_ir.Node, op: str, inputs: Sequence[onnx_ir.Value], **attributes: Any
    ) -> onnx_ir.Value:
        """Puts a new node before another one.

        Args:
            node: The node that uses the result.
            op: The new node's operator.
            inputs: The new node's inputs.
            **attributes: The new node's attributes.

        Returns:
            The new node's output.
        """


class Rule:
    """One node, with its data in one order of axes everywhere: what elementwise operators do.

    Args:
        node: The node.
        inputs: Positions of the inputs that are permuted.
        rank: How many axes its data has.

    Attributes:
        node: The node.
        inputs: Positions of the inputs that are permuted.
        outputs: Positions of the outputs that are.
        rest: The label under which the node is as it stands.
        keeps_axes: Axes of what it takes and gives, where there are as many, are the same.
    """

    keeps_axes = True

    def __init__(self, node: onnx_ir.Node, inputs: Sequence[int], rank: int) -> None:
        self.node, self.inputs, self.rank = node, tuple(inputs), rank
        self.outputs: tuple[int, ...] = tuple(range(len(node.outputs)))
        self.rest: Label = identity(rank)

    def by_input(self, index: int, perm: Perm) -> Label | None:
        """The label with which input ``index`` is taken as ``perm``; None where there is none."""
        return perm if self.allows(perm) else None

    def by_output(self, index: int, perm: Perm) -> Label | None:
        """The label with which output ``index`` comes as ``perm``; None where there is none."""
        return perm if self.allows(perm) else None

    def allows(self, perm: Perm) -> bool:
        """Whether the node can run so."""
        return True

    def input_perm(self, label: Label, index: int) -> Perm:
        """How it takes an input."""
        perm: Perm = label
        return perm

    def output_perm(self, label: Label, index: int) -> Perm:
        """How it gives an output."""
        perm: Perm = label
        return perm

    def extra(self, label: Label) -> int:
        """How many small nodes come in."""
        return 0

    def rewrite(self, label: Label, editor: Editor) -> None:
        """Makes the node run so; its permuted inputs are in their places already."""


class Elementwise(Rule):
    """Numpy's broadcasting: operands of fewer axes are constants, or have one axis.

    Args:
        node: The node.
        inputs: Positions of the inputs that are permuted.
        rank: How many axes the result has.
        low: Positions of inputs of fewer axes, but for those of none.
    """

    def __init__(self, node: onnx_ir.Node, inputs: Sequence[int], rank: int, low: Sequence[int]):
        super().__init__(node, inputs, rank)
        self._low = low

    @classmethod
    def of(cls, node: onnx_ir.Node) -> Rule | None:
        """The rule, where the ranks of all operands are known."""
        ranks = {
            index: len(value.shape) if value.shape is not None else None
            for index, value in enumerate(node.inputs)
            if value is not None
        }
        if any(rank is None for rank in ranks.values()):
            return None
        rank = max((known for known in ranks.values() if known is not None), default=0)
        data = [index for index, known in ranks.items() if known == rank]
        low = [index for index, known in ranks.items() if known not in (0, rank)]
        for index in low:
            value = node.inputs[index]
            if not is_constant(value) and ranks[index] != 1:
                return None
        return cls(node, data, rank, low)

    def extra(self, label: Label) -> int:
        """An Unsqueeze for each operand of one axis that isn't a constant."""
        if label[-1:] in ((), (self.rank - 1,)):
            return 0
        return sum(not is_constant(self.node.inputs[index]) for index in self._low)

    def rewrite(self, label: Label, editor: Editor) -> None:
        """Permutes the operands of fewer axes."""
        for index in self._low:
            value = self.node.inputs[index]
            assert value is not None
            if is_constant(value):
                self.node.replace_input_with(index, editor.permute_constant(value, label))
            elif label[-1] != self.rank - 1:
                place = label.index(self.rank - 1)
                axes = np.asarray([a for a in range(self.rank) if a != place], np.int64)
                made = editor.insert(self.node, "Unsqueeze", [value, editor.constant(axes, "axes")])
                assert value.shape is not None
                own = {place: value.shape[0]}
                made.type = value.type
                made.shape = onnx_ir.Shape([own.get(axis, 1) for axis in range(self.rank)])
                self.node.replace_input_with(index, made)


class OneInput(Rule):
    """Elementwise in its first input; the others are scalars, or left alone."""

    @classmethod
    def of(cls, node: onnx_ir.Node) -> Rule | None:
        """The rule, where the rank is known."""
        rank = rank_of(node.inputs[0])
        return None if rank is None else cls(node, [0], rank)


class AlongAxis(Rule):
    """An operator with an attribute ``axis``.

    Args:
        node: The node.
        inputs: Positions of the inputs that are permuted.
        rank: How many axes its data has.
        axis: The attribute's value; negative from the end.
    """

    def __init__(self, node: onnx_ir.Node, inputs: Sequence[int], rank: int, axis: int) -> None:
        super().__init__(node, inputs, rank)
        self.axis = axis % rank

    @classmethod
    def of(
        cls, node: onnx_ir.Node, default: int = -1, inputs: Sequence[int] | None = None
    ) -> AlongAxis | None:
        """The rule, where ranks are known and all the same.

        Args:
            node: The node.
            default: What ONNX says where the attribute is left out.
            inputs: Positions of the inputs that are permuted; None for all.
        """
        axis = attribute_int(node, "axis", default)
        places = range(len(node.inputs)) if inputs is None else inputs
        ranks = {rank_of(node.inputs[index]) for index in places}
        if axis is None or len(ranks) != 1:
            return None
        rank = ranks.pop()
        return None if not rank or not -rank <= axis < rank else cls(node, places, rank, axis)

    def rewrite(self, label: Label, editor: Editor) -> None:
        set_int(self.node, "axis", label.index(self.axis))


def quantized(node: onnx_ir.Node) -> Rule | None:
    """The rule for QuantizeLinear and DequantizeLinear: one scale, or one for each index of an
    axis."""
    scale = static_shape(node.inputs[1])
    if scale is None or len(scale) > 1 or attribute_int(node, "block_size", 0) != 0:
        return None
    return OneInput.of(node) if scale in ([], [1]) else AlongAxis.of(node, 1, [0])


class Held(Rule):
    """An operator some of whose axes have to stay where they are.

    Args:
        node: The node.
        inputs: Positions of the inputs that are permuted.
        rank: How many axes its data has.
        held: The axes that stay; negative from the end.
    """

    def __init__(
        self, node: onnx_ir.Node, inputs: Sequence[int], rank: int, held: Sequence[int]
    ) -> None:
        super().__init__(node, inputs, rank)
        self._held = [axis % rank for axis in held]

    def allows(self, perm: Perm) -> bool:
        return all(perm[axis] == axis for axis in self._held)


class ByVector(Rule):
    """An operator with an input that holds ``copies`` numbers for each axis: Tile, Expand, Pad.

    Args:
        node: The node.
        rank: How many axes its data has.
        index: Position of the input that holds the numbers.
        copies: How many numbers it holds for each axis: 2 for Pad's begins and ends.
    """

    def __init__(self, node: onnx_ir.Node, rank: int, index: int, copies: int = 1) -> None:
        super().__init__(node, [0], rank)
        self._index, self._copies = index, copies

    def extra(self, label: Label) -> int:
        """A Gather, where the numbers aren't constant."""
        return int(label != self.rest and constant(self.node.inputs[self._index]) is None)

    def rewrite(self, label: Label, editor: Editor) -> None:
        """Puts the numbers in the new order of axes."""
        places = [axis + copy * self.rank for copy in range(self._copies) for axis in label]
        reorder(self.node, self._index, places, editor)


class ByAxes(Rule):
    """An operator with an input of axes: Slice, Pad and CumSum.

    Args:
        node: The node.
        rank: How many axes its data has.
        index: Position of the input that holds axes.
        axes: The axes that it holds, or stands for where it is left out; negative from the end.
    """

    def __init__(self, node: onnx_ir.Node, rank: int, index: int, axes: Sequence[int]) -> None:
        super().__init__(node, [0], rank)
        self._index, self._axes = index, [axis % rank for axis in axes]

    @classmethod
    def of(cls, node: onnx_ir.Node, index: int, count: int | None) -> Rule | None:
        """The rule, where the axes are known.

        Args:
            node: The node.
            index: Position of the input that holds axes.
            count: How many axes there are where that input is missing, from the first on; None for
                no rule then.
        """
        rank = rank_of(node.inputs[0])
        if rank is None:
            return None
        given = node.inputs[index] if len(node.inputs) > index else None
        if given is None:
            return None if count is None else cls(node, rank, index, range(count))
        axes = integers(given)
        return None if axes is None else cls(node, rank, index, axes)

    def rewrite(self, label: Label, editor: Editor) -> None:
        old = self.node.inputs[self._index] if len(self.node.inputs) > self._index else None
        like = old or self.node.inputs[1]  # a Slice's limits and axes are of one type
        assert like is not None and like.dtype is not None
        new = np.asarray([label.index(axis) for axis in self._axes], like.dtype.numpy())
        new = new.reshape([]) if old is not None and rank_of(old) == 0 else new
        set_input(self.node, self._index, editor.constant(new, "axes"))


# -- small questions and edits -----------------------------------------------------------


def rank_of(value: onnx_ir.Value | None) -> int | None:
    """How many axes a value has; None where unknown."""
    return None if value is None or value.shape is None else len(value.shape)


def dims_of(value: onnx_ir.Value) -> Dims:
    """A value's sizes, whose rank is known."""
    dims = static_shape(value)
    assert dims is not None
    return dims


def is_empty(value: onnx_ir.Value | None) -> bool:
    """Whether an optional input is missing, or a constant of nothing."""
    if value is None:
        return True
    array = constant(value)
    return array is not None and array.size == 0


def set_int(node: onnx_ir.Node, name: str, number: int) -> None:
    """Sets an integer attribute.

    Args:
        node: The node.
        name: The attribute's name.
        number: Its value.
    """
    node.attributes[name] = onnx_ir.AttrInt64(name, number)


def set_input(node: onnx_ir.Node, index: int, value: onnx_ir.Value) -> None:
    """Sets an input that may be beyond the last one.

    Args:
        node: The node.
        index: The input's position; inputs between are left out.
        value: What it becomes.
    """
    if len(node.inputs) <= index:
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def reorder(node: onnx_ir.Node, index: int, places: Sequence[int], editor: Editor) -> None:
    """Takes the elements of a vector input in another order.

    Args:
        node: The node.
        index: The input's position.
        places: For each element of the result, its place in the input.
        editor: Makes the constant, or a Gather where the input is computed.
    """
    value = node.inputs[index]
    assert value is not None
    if list(places) == list(range(len(places))):
        return
    array = constant(value)
    if array is not None:
        set_input(node, index, editor.constant(array[list(places)], value.name or "vector"))
        return
    order = editor.constant(np.asarray(places, np.int64), "order")
    set_input(node, index, editor.insert(node, "Gather", [value, order], axis=0))


def stored_shape(value: onnx_ir.Value, perm: Perm) -> onnx_ir.Shape:
    """The shape of ``value`` stored as ``perm``."""
    return onnx_ir.Shape(permuted(dims_of(value), perm))


Maker = Callable[[onnx_ir.Node], Rule | None]
