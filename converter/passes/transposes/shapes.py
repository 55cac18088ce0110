"""Rules for operators whose outputs have other axes than their inputs.

Their labels are pairs: the order of axes that goes in, and the one that comes out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, integers
from converter.passes.transposes.perm import Perm, identity, with_axes, without
from converter.passes.transposes.rules import Editor, Label, Rule, rank_of, set_input, set_int


class Pair(Rule, ABC):
    """A rule whose label holds the order before and after.

    Args:
        node: The node.
        rank: How many axes go in.
        rank_after: How many axes come out.
    """

    def __init__(self, node: onnx_ir.Node, rank: int, rank_after: int) -> None:
        super().__init__(node, [0], rank)
        self.rest = (identity(rank), identity(rank_after))

    def by_input(self, index: int, perm: Perm) -> Label | None:
        """The order before, and the one after that goes with it."""
        result = self.forward(perm)
        return None if result is None else (perm, result)

    def by_output(self, index: int, perm: Perm) -> Label | None:
        """The order after, and the one before that goes with it."""
        source = self.backward(perm)
        return None if source is None else (source, perm)

    @abstractmethod
    def forward(self, perm: Perm) -> Perm | None:
        """The order after."""

    @abstractmethod
    def backward(self, perm: Perm) -> Perm | None:
        """An order before."""

    def input_perm(self, label: Label, index: int) -> Perm:
        perm: Perm = label[0]
        return perm

    def output_perm(self, label: Label, index: int) -> Perm:
        perm: Perm = label[1]
        return perm


class Reduced(Pair):
    """Reductions and ArgMax, which lose axes, or keep them with one element each.

    Args:
        node: The node.
        rank: Of its input.
        axes: What is reduced.
        index: The input that holds the axes; None for the attribute ``axis``.
    """

    def __init__(
        self, node: onnx_ir.Node, rank: int, axes: Sequence[int], index: int | None
    ) -> None:
        self._axes = [axis % rank for axis in axes]
        self._keeps = attribute_int(node, "keepdims", 1) == 1
        self._index = index
        super().__init__(node, rank, rank if self._keeps else rank - len(set(self._axes)))

    @classmethod
    def of(cls, node: onnx_ir.Node) -> Rule | None:
        """The rule, where the axes are known."""
        rank = rank_of(node.inputs[0])
        if not rank or "axes" in node.attributes:
            return None
        if node.op_type.startswith("Arg"):
            axis = attribute_int(node, "axis", 0)
            return None if axis is None else cls(node, rank, [axis], None)
        given = node.inputs[1] if len(node.inputs) > 1 else None
        if given is None:
            if attribute_int(node, "noop_with_empty_axes", 0) != 0:
                return None
            return cls(node, rank, range(rank), 1)
        axes = integers(given)
        return None if not axes else cls(node, rank, axes, 1)

    def forward(self, perm: Perm) -> Perm | None:
        """What is left of the order."""
        return perm if self._keeps else without(perm, self._axes)

    def backward(self, perm: Perm) -> Perm | None:
        """The order, with what is reduced where it was."""
        return perm if self._keeps else with_axes(perm, self._axes)

    def rewrite(self, label: Label, editor: Editor) -> None:
        axes = sorted(label[0].index(axis) for axis in self._axes)
        if self._index is None:
            set_int(self.node, "axis", axes[0])
        else:
            set_input(self.node, 1, editor.constant(np.asarray(axes, np.int64), "axes"))


class Squeezed(Pair):
    """Squeeze, which loses axes of one element.

    Args:
        node: The node.
        rank: How many axes go in.
        axes: The axes that go, of those that go in; negative from the end.
    """

    def __init__(self, node: onnx_ir.Node, rank: int, axes: Sequence[int]) -> None:
        self._axes = [axis % rank for axis in axes]
        super().__init__(node, rank, rank - len(self._axes))

    @classmethod
    def of(cls, node: onnx_ir.Node) -> Rule | None:
        """The rule, where the axes are known."""
        rank = rank_of(node.inputs[0])
        axes = integers(node.inputs[1]) if len(node.inputs) > 1 else None
        return None if rank is None or not axes else cls(node, rank, axes)

    def forward(self, perm: Perm) -> Perm | None:
        """What is left of the order."""
        return without(perm, self._axes)

    def backward(self, perm: Perm) -> Perm | None:
        """The order, with what is lost where it was."""
        return with_axes(perm, self._axes)

    def rewrite(self, label: Label, editor: Editor) -> None:
        axes = sorted(label[0].index(axis) for axis in self._axes)
        set_input(self.node, 1, editor.constant(np.asarray(axes, np.int64), "axes"))


class Unsqueezed(Pair):
    """Unsqueeze, which gets axes of one element.

    Args:
        node: The node.
        rank: How many axes go in.
        axes: The new axes, of those that come out; negative from the end.
    """

    def __init__(self, node: onnx_ir.Node, rank: int, axes: Sequence[int]) -> None:
        result = rank + len(axes)
        self._axes = [axis % result for axis in axes]
        super().__init__(node, rank, result)

    @classmethod
    def of(cls, node: onnx_ir.Node) -> Rule | None:
        """The rule, where the axes are known."""
        rank = rank_of(node.inputs[0])
        axes = integers(node.inputs[1])
        return None if rank is None or not axes else cls(node, rank, axes)

    def forward(self, perm: Perm) -> Perm | None:
        """The order, with the new axes where they were."""
        return with_axes(perm, self._axes)

    def backward(self, perm: Perm) -> Perm | None:
        """The order without the new axes."""
        return without(perm, self._axes)

    def rewrite(self, label: Label, editor: Editor) -> None:
        axes = sorted(label[1].index(axis) for axis in self._axes)
        set_input(self.node, 1, editor.constant(np.asarray(axes, np.int64), "axes"))


class Gathered(Pair):
    """Gather along an axis by one index (the axis goes) or a vector of them (it stays).

    Args:
        node: The node.
        rank: How many axes go in.
        axis: The axis that is gathered along; negative from the end.
        vector: Whether the indices are a vector, so that the axis stays.
    """

    def __init__(self, node: onnx_ir.Node, rank: int, axis: int, vector: bool) -> None:
        self._axis, self._vector = axis % rank, vector
        super().__init__(node, rank, rank if vector else rank - 1)

    @classmethod
    def of(cls, node: onnx_ir.Node) -> Rule | None:
        """The rule, where the ranks are known."""
        rank, indices = rank_of(node.inputs[0]), rank_of(node.inputs[1])
        axis = attribute_int(node, "axis", 0)
        if not rank or indices not in (0, 1) or axis is None:
            return None
        return cls(node, rank, axis, indices == 1)

    def forward(self, perm: Perm) -> Perm | None:
        """The order, without the axis where that goes."""
        return perm if self._vector else without(perm, [self._axis])

    def backward(self, perm: Perm) -> Perm | None:
        """The order, with the axis where it was."""
        return perm if self._vector else with_axes(perm, [self._axis])

    def rewrite(self, label: Label, editor: Editor) -> None:
        set_int(self.node, "axis", label[0].index(self._axis))


class Measured(Rule):
    """Shape: its numbers are put back in the order that they had."""

    def __init__(self, node: onnx_ir.Node, rank: int) -> None:
        super().__init__(node, [0], rank)
        self.outputs = ()
        start = attribute_int(node, "start", 0) or 0
        end = attribute_int(node, "end", rank)
        self._axes = list(range(rank))[start : rank if end is None else end]

    @classmethod
    def of(cls, node: onnx_ir.Node) -> Rule | None:
        """The rule, where the rank is known."""
        rank = rank_of(node.inputs[0])
        return None if not rank else cls(node, rank)

    def extra(self, label: Label) -> int:
        return int(label != self.rest)

    def rewrite(self, label: Label, editor: Editor) -> None:
        """Makes the node a Gather of a new Shape's elements."""
        source = self.node.inputs[0]
        assert source is not None
        shape = editor.insert(self.node, "Shape", [source])
        places = np.asarray([label.index(axis) for axis in self._axes], np.int64)
        self.node.op_type = "Gather"
        self.node.attributes.clear()
        set_int(self.node, "axis", 0)
        set_input(self.node, 0, shape)
        set_input(self.node, 1, editor.constant(places, "order"))
