"""The rule for Reshape and Flatten, and for a product with constant weights behind them."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, integers, is_constant, is_op
from converter.ir.facts import UNARY
from converter.passes.transposes.perm import Perm, Regrouping, identity, permuted
from converter.passes.transposes.rules import Editor, Label, Rule, dims_of, rank_of, set_input
from converter.passes.transposes.shapes import Pair

Sizes = list[int | str | None]


class Reshaped(Pair):
    """Reshape and Flatten: groups of axes that stay together may change places.

    Where what is flattened goes into a product with constant weights, the order within may
    change as well: the rows of the weights change with it.
    """

    keeps_axes = False

    def __init__(self, node: onnx_ir.Node, groups: Regrouping) -> None:
        super().__init__(node, len(groups.before), len(groups.after))
        self._groups = groups
        self._dense = _Dense.of(node, groups)

    @classmethod
    def of(cls, node: onnx_ir.Node) -> Rule | None:
        """The rule, where the sizes tell the groups."""
        source, result = node.inputs[0], node.outputs[0]
        if rank_of(source) is None or rank_of(result) is None or source is None:
            return None
        groups = Regrouping.of(*_named(node, list(dims_of(source)), list(dims_of(result))))
        return None if groups is None else cls(node, groups)

    def forward(self, perm: Perm) -> Perm | None:
        """The order of the groups after."""
        result = self._groups.forward(perm)
        if result is None and self._dense is not None and self._dense.takes(perm):
            return identity(len(self._groups.after))
        return result if result is None or self._target(result) else None

    def backward(self, perm: Perm) -> Perm | None:
        """The order of the groups before."""
        return self._groups.backward(perm) if self._target(perm) else None

    def _target(self, perm: Perm) -> list[int] | None:
        sizes = permuted(self._groups.after, perm)
        target = [size if isinstance(size, int) else -1 for size in sizes]
        return target if target.count(-1) <= 1 and 0 not in target else None

    def rewrite(self, label: Label, editor: Editor) -> None:
        """Changes the shape that is asked for, or the weights behind."""
        if self._groups.forward(label[0]) is None:
            assert self._dense is not None
            self._dense.rewrite(label[0], editor)
            return
        target = self._target(label[1])
        assert target is not None
        self.node.op_type = "Reshape"
        self.node.attributes.clear()
        shape = editor.constant(np.asarray(target, np.int64), "shape")
        set_input(self.node, 1, shape)


def _named(node: onnx_ir.Node, before: Sizes, result: Sizes) -> tuple[Sizes, Sizes]:
    """The sizes before and after, free ones that have to be the same with the same name.

    A 0 in the shape asked for copies a size; and one free size on each side is the same, where
    the others come to the same number of elements.
    """
    asked = integers(node.inputs[1]) if is_op(node, "Reshape") else None
    if asked is not None and attribute_int(node, "allowzero", 0) == 0:
        for axis, size in enumerate(asked):
            if size == 0:
                before[axis] = before[axis] or f"?{axis}"
                result[axis] = before[axis]
    free = [
        [axis for axis, size in enumerate(d) if not isinstance(size, int)] for d in (before, result)
    ]
    counts = [prod(size for size in dims if isinstance(size, int)) for dims in (before, result)]
    if len(free[0]) == len(free[1]) == 1 and counts[0] == counts[1] != 0:
        before[free[0][0]] = result[free[1][0]] = "?"
    return before, result


class _Dense:
    """A product with constant weights behind a flattening.

    Attributes:
        node: MatMul or Gemm.
        sizes: Of the axes that were flattened, which are the last ones before it.
    """

    def __init__(self, node: onnx_ir.Node, sizes: list[int], rank: int) -> None:
        self.node, self.sizes, self._rank = node, sizes, rank

    @classmethod
    def of(cls, node: onnx_ir.Node, groups: Regrouping) -> _Dense | None:
        """The product behind ``node``, where there is one and nothing else uses the flattened."""
        before, after = groups.groups[-1]
        sizes = [groups.before[axis] for axis in before]
        if len(after) != 1 or after[0] != len(groups.after) - 1 or len(before) < 2:
            return None
        value = node.outputs[0]
        while True:
            uses = list(value.uses())
            if value.is_graph_output() or len(uses) != 1 or uses[0].node.graph is not node.graph:
                return None
            user = uses[0].node
            if uses[0].idx != 0:
                return None
            if is_op(user, "MatMul", "Gemm"):
                break
            if not is_op(user, *UNARY):
                return None
            value = user.outputs[0]
        weights = user.inputs[1]
        if not is_constant(weights) or rank_of(weights) != 2:
            return None
        if attribute_int(user, "transA", 0) != 0:
            return None
        return cls(user, [int(size or 0) for size in sizes], len(groups.before))

    def takes(self, perm: Perm) -> bool:
        """Whether only what is flattened changes places."""
        first = self._rank - len(self.sizes)
        return perm[:first] == tuple(range(first))

    def rewrite(self, perm: Perm, editor: Editor) -> None:
        """Puts the rows of the weights in the new order."""
        first = self._rank - len(self.sizes)
        order = [axis - first for axis in perm[first:]]
        rows = np.arange(int(np.prod(self.sizes))).reshape(self.sizes).transpose(order).ravel()
        weights = self.node.inputs[1]
        assert weights is not None and weights.const_value is not None
        axis = attribute_int(self.node, "transB", 0) or 0
        array = weights.const_value.numpy().take(rows, axis=axis)
        self.node.replace_input_with(1, editor.constant(array, weights.name or "weights"))
