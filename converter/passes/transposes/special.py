"""Rules for operators that are like no other: Resize, the global poolings, Gemm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, constant, static_shape
from converter.passes.transposes.perm import Perm, identity
from converter.passes.transposes.rules import (
    Editor,
    Label,
    Rule,
    is_empty,
    rank_of,
    reorder,
    set_input,
    set_int,
)


class Resized(Rule):
    """Resize: by scales or sizes for each axis, or for those that an attribute names.

    Runtimes resize the last axes of a tensor: other orders aren't made.

    Args:
        node: The node.
        rank: How many axes its data has.
        scaled: The axes that its scales or sizes are for.
        index: Position of the input that holds them.
    """

    def __init__(self, node: onnx_ir.Node, rank: int, scaled: Sequence[int], index: int) -> None:
        super().__init__(node, [0], rank)
        self._scaled, self._index = scaled, index

    @classmethod
    def of(cls, node: onnx_ir.Node) -> Rule | None:
        """The rule, where it is known which axes change their size."""
        rank = rank_of(node.inputs[0])
        mode = node.attributes.get("coordinate_transformation_mode")
        if rank is None or (mode is not None and mode.as_string() == "tf_crop_and_resize"):
            return None
        by_scales = len(node.inputs) > 2 and not is_empty(node.inputs[2])
        index = 2 if by_scales else 3
        axes = node.attributes.get("axes")
        if axes is not None:
            return cls(node, rank, [axis % rank for axis in axes.as_ints()], index)
        before, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
        if by_scales:
            scales = constant(node.inputs[2])
            if scales is None:
                return None
            return cls(node, rank, [a for a, s in enumerate(scales.ravel()) if s != 1], index)
        if before is None or result is None:
            return None
        changed = [a for a in range(rank) if before[a] != result[a] or before[a] is None]
        return cls(node, rank, changed, index)

    def allows(self, perm: Perm) -> bool:
        """Whether what is resized comes last."""
        places = [perm.index(axis) for axis in self._scaled]
        return places == list(range(self.rank - len(places), self.rank))

    def extra(self, label: Label) -> int:
        """A Gather, where the numbers aren't constant."""
        if "axes" in self.node.attributes or label == self.rest:
            return 0
        return int(constant(self.node.inputs[self._index]) is None)

    def rewrite(self, label: Label, editor: Editor) -> None:
        """Changes the axes, or puts the numbers in their order."""
        if "axes" in self.node.attributes:
            self.node.attributes["axes"] = onnx_ir.AttrInt64s(
                "axes", [label.index(axis) for axis in self._scaled]
            )
        else:
            reorder(self.node, self._index, label, editor)


class Pooled(Rule):
    """A global pooling: in another order of axes it is a reduction."""

    def rewrite(self, label: Label, editor: Editor) -> None:
        """Makes it a ReduceMean or a ReduceMax."""
        if label[:2] == (0, 1):
            return
        axes = sorted(label.index(axis) for axis in range(2, self.rank))
        self.node.op_type = _REDUCTIONS[self.node.op_type]
        set_input(self.node, 1, editor.constant(np.asarray(axes, np.int64), "axes"))
        set_int(self.node, "keepdims", 1)


_REDUCTIONS = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}


class General(Rule):
    """Gemm: either matrix may come transposed."""

    keeps_axes = False

    def __init__(self, node: onnx_ir.Node) -> None:
        super().__init__(node, (0, 1), 2)
        self.outputs = ()
        self.rest = (identity(2), identity(2))

    def by_input(self, index: int, perm: Perm) -> Label | None:
        """That matrix as ``perm``, the other as it is."""
        label = list(self.rest)
        label[index] = perm
        return tuple(label)

    def input_perm(self, label: Label, index: int) -> Perm:
        """How it takes a matrix."""
        perm: Perm = label[index]
        return perm

    def rewrite(self, label: Label, editor: Editor) -> None:
        for index, name in enumerate(("transA", "transB")):
            old = attribute_int(self.node, name, 0)
            set_int(self.node, name, (old or 0) ^ int(label[index] != identity(2)))
