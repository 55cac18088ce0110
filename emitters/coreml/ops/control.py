"""If, Loop and Scan: ``cond`` and ``while_loop``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir

from converter.errors import Unsupported
from converter.ir.edit import constant_tensor
from converter.ir.refused import Refused, RefusedInside
from emitters.coreml import limits
from emitters.coreml.blocks import cond
from emitters.coreml.context import Context, Var, free
from emitters.coreml.lowering import lower_nodes
from emitters.coreml.registry import lowers
from emitters.coreml.types import Array
from emitters.lowering.plans.control import need_same_rank, need_tensors

WRITTEN_NODES, WRITTEN_ELEMENTS = 256, 1 << 18
"""Most nodes of a loop that is written out round by round, and elements of its constants."""


def scalar(context: Context, x: Var) -> Var:
    """A variable of one element, without axes."""
    return context.op("squeeze", x=x, axes=list(range(len(x.shape)))) if x.shape else x


def is_light(graph: onnx_ir.Graph, rounds: int) -> bool:
    """Whether a body may be written out so many times: few nodes, and no weights to speak of."""
    nodes = list(onnx_ir.traversal.RecursiveGraphIterator(graph))
    tensors = [constant_tensor(value) for node in nodes for value in node.inputs]
    elements = sum(tensor.size for tensor in tensors if tensor is not None)
    return len(nodes) * rounds <= WRITTEN_NODES and elements * rounds <= WRITTEN_ELEMENTS


class Inside:
    """Graphs lowered into blocks, and what can't be in them.

    coremltools builds the blocks; what is refused there is told apart from its own refusals.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refusals: list[Unsupported] | None = None

    def lower(self, graph: onnx_ir.Graph, given: dict[onnx_ir.Value, Var]) -> Context:
        """A context in which a graph's nodes are lowered, those outside with it.

        Raises:
            Refused: Some can't be.
        """
        inner = Context(self._context.program, {**self._context.vars, **given})
        inner.node = self._context.node
        found: list[Unsupported] = []
        if not lower_nodes(inner, graph, found):
            self._refusals = (self._refusals or []) + found
            raise Refused("a node inside can't be lowered")
        inner.node = self._context.node
        return inner

    def run(self, build: Callable[[], list[Var]]) -> list[Var]:
        """What ``build`` gives.

        Raises:
            RefusedInside: It was a node inside that couldn't be lowered.
            Refused: It is refused otherwise.
        """
        try:
            return build()
        except Refused:
            if self._refusals is not None:
                raise RefusedInside(self._refusals) from None
            raise


# -- If ----------------------------------------------------------------------------------


@lowers("If")
def if_(context: Context, node: onnx_ir.Node) -> None:
    """cond."""
    then, otherwise = (node.attributes[f"{name}_branch"].as_graph() for name in ("then", "else"))
    need_tensors(node.outputs, limits.SEQUENCES)
    hidden = [
        _differing(context, pair) for pair in zip(then.outputs, otherwise.outputs, strict=True)
    ]
    pred, inside = scalar(context, context.var(node.inputs[0])), Inside(context)

    def first() -> list[Var]:
        try:
            return _branch(inside.lower(then, {}), then, hidden, pred)
        except Refused:
            inside.lower(otherwise, {})  # what is refused there has to be told too
            raise

    def second() -> list[Var]:
        here = inside.lower(otherwise, {})
        return _branch(here, otherwise, hidden, context.op("logical_not", x=pred))

    made = inside.run(lambda: cond(context, pred, first, second))
    for output, var in zip(node.outputs, made, strict=True):
        context.give(output, var)


def _differing(context: Context, pair: tuple[onnx_ir.Value, onnx_ir.Value]) -> Sequence[int] | None:
    """The axes whose sizes aren't one number in both graphs; None where that isn't known."""
    if any(value.shape is None for value in pair):
        return None
    one, other = (context.shape(value) for value in pair)
    need_same_rank(pair[0].name, one, other)
    pairs = enumerate(zip(one, other, strict=True))
    return [axis for axis, (a, b) in pairs if a != b or not isinstance(a, int)]


def _branch(
    context: Context, graph: onnx_ir.Graph, hidden: Sequence[Sequence[int] | None], taken: Var
) -> list[Var]:
    """What a graph gives, sizes hidden that aren't the other's.

    ``taken`` is true wherever it runs, which coremltools doesn't know.
    """
    made = []
    for value, axes in zip(graph.outputs, hidden, strict=True):
        array = context.array(value)
        if array is not None and not array.size:
            made.append(_nothing(context, array, axes, taken))
            continue
        var = context.var(value)
        axes = range(len(var.shape)) if axes is None else axes
        known = {axis: int(var.shape[axis]) for axis in axes if not free(var.shape[axis])}
        made.append(_hide(context, var, known, taken) if known else var)
    return made


def _nothing(context: Context, empty: Array, axes: Sequence[int] | None, taken: Var) -> Var:
    """A tensor without elements, cut off one that has some: that it has none isn't known before
    the program runs."""
    some = np.zeros([max(size, 1) for size in empty.shape], empty.dtype)
    sizes = enumerate(empty.shape)
    ends = {axis: size for axis, size in sizes if axes is None or axis in axes or not size}
    return _hide(context, context.const(some), ends, taken)


def _hide(context: Context, x: Var, ends: Mapping[int, int], taken: Var) -> Var:
    """``x`` up to the ends of some axes, which aren't known before the program runs: a block's
    results have the sizes that are known in the first block. Of an axis of size 1 coremltools
    knows that no more than that comes of it, and takes it for that: it is twice as long before."""
    rank = len(x.shape)
    single = [axis in ends and x.shape[axis] == 1 for axis in range(rank)]
    if any(single):
        x = context.op("tile", x=x, reps=[1 + each for each in single])
    one = context.op("expand_dims", x=context.cast(taken, "int32"), axes=[0])
    limits = np.asarray([ends.get(axis, 0) for axis in range(rank)], np.int32)
    return context.op(
        "slice_by_index",
        x=x,
        begin=[0] * rank,
        end=context.op("mul", x=one, y=limits),
        end_mask=[axis not in ends for axis in range(rank)],
    )
