"""Tensors of more axes than a target has, as ones of fewer.

Six axes and more stand between a reshape and the next: windows and patches of images, heads in
groups, correlation volumes. Such a tensor never has to be there. It is kept as its elements in
their order, with its sizes beside it (``packed.py``); a node that takes or gives it is written on
its elements with neighbouring axes joined, as far as the operator treats them alike:

    moving.py      reshapes, which leave the elements; a Transpose of blocks of axes, in steps
    stretching.py  what numpy's rule stretches: axes that the same operands are stretched along
    along.py       operators along some axes: what is before, between and behind them
    indexed.py     elements by indices

    Given:   [B, H, W, C] -> [B, h, 8, w, 8, C] -> transpose 0 1 3 2 4 5 -> [B * h * w, 64, C]
    Result:  [B, H, W, C] -> [B * h, 8, w, 8 * C] -> transpose 0 2 1 3 -> [B * h * w, 64, C]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx_ir

from converter.ir.edit import all_nodes, is_op, is_used
from converter.ir.facts import BROADCASTS, REDUCTIONS, UNARY
from converter.ir.refused import Refused
from converter.passes.legalize import WHY
from converter.passes.legalize.builder import Builder, Free, Size, Value, plain
from emitters.lowering.axes.indexed import INDEXED
from emitters.lowering.axes.moving import MOVES
from emitters.lowering.axes.packed import Packed, Work
from emitters.lowering.axes.reduction import ALONG, reduced
from emitters.lowering.axes.stretching import STRETCHES, elementwise

Handler = Callable[[Work], Sequence[Packed]]
"""Writes a node with fewer axes; gives its outputs."""

Wrong = Callable[[onnx_ir.Node], Refused | None]


def unary(w: Work) -> list[Packed]:
    """A function of each element."""
    x = w.input(0)
    return [Packed(w.like(w.plain(x), *w.rest(1))[0], x.dims)]


HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(UNARY, unary),
    **dict.fromkeys(BROADCASTS | {"PRelu"}, elementwise),
    **dict.fromkeys(REDUCTIONS, reduced),
    **ALONG,
    **INDEXED,
    **MOVES,
    **STRETCHES,
}


def exceeds(node: onnx_ir.Node, most: int) -> bool:
    """Whether a node takes or gives a tensor of more axes."""
    values = (*node.inputs, *node.outputs)
    return any(v is not None and v.shape is not None and len(v.shape) > most for v in values)


class FewerAxes:
    """Writes nodes with at most so many axes, one after the other, in their order.

    The model's inputs and outputs keep theirs: Reshapes stand there, from and to as many axes as
    the target has, the last of which are joined.

    Args:
        most: How many axes the target has.
        model: All of whose nodes are tried; changed in place.
        limit: What the target hasn't, for people.
    """

    def __init__(self, most: int, model: onnx_ir.Model, limit: str) -> None:
        self._most, self._model, self._limit = most, model, limit
        self._known: dict[Value, Packed] = {}
        self._done: dict[onnx_ir.Node, Builder] = {}
        self._refused: dict[onnx_ir.Node, Refused] = {}

    def rewrite(self, node: onnx_ir.Node) -> bool:
        """Writes a node anew in front of it, if it has too many axes; whether that was done. The
        node stays until :meth:`finish`."""
        if not exceeds(node, self._most) or not isinstance(node.graph, onnx_ir.Graph):
            return False
        builder = Builder(node, self._model.opset_imports[""])
        try:
            made = self._written(Work(builder, self._known, self._most))
        except Refused as error:
            builder.discard()
            self._refused[node] = error
            return False
        values = [self._given(builder, *pair) for pair in zip(node.outputs, made, strict=False)]
        builder.give(values)
        self._done[node] = builder
        for packed, *both in zip(made, node.outputs, values, strict=False):
            if len(packed.dims) > self._most:
                self._known.update((value, packed) for value in both if value is not None)
        return True

    def _given(self, builder: Builder, output: Value, x: Packed) -> Value | None:
        """What takes over an output; nothing where that has too many axes."""
        work = Work(builder, self._known, self._most)
        if len(x.dims) <= self._most:
            return work.view(x, x.dims)
        if output not in self._model.graph.outputs:
            return None
        first = self._most - 1
        joined = work.view(x, [*x.dims[:first], builder.product(x.dims[first:])])
        made = builder.op("Reshape", joined, builder.vector(x.dims))
        made.shape = onnx_ir.Shape(map(plain, x.dims))
        return made

    def _written(self, work: Work) -> list[Packed]:
        node = work.node
        handler = HANDLERS.get(node.op_type) if is_op(node, node.op_type) else None
        if handler is None:
            raise Refused(f"{node.op_type} can't be written with fewer axes")
        if any(output.shape is None for output in node.outputs if output.name):
            raise Refused("the number of its output's axes isn't known")
        values = (*node.inputs, *node.outputs)
        if any(0 in (value.shape or ()) for value in values if value is not None):
            raise Refused("it has no inputs or no outputs")
        made = handler(work)
        pairs = zip(made, node.outputs, strict=False)
        return [Packed(x.value, _named(x.dims, output)) for x, output in pairs]

    def finish(self, wrong: Wrong) -> None:
        """Takes away what was written anew, and says of what stays why it does.

        Args:
            wrong: What is wrong with a node's way, where it wasn't to be done.
        """
        for value, packed in self._known.items():
            self._restore(value, packed)
        for node in reversed(self._done):
            if not any(is_used(node, place) for place in range(len(node.outputs))):
                assert node.graph is not None
                node.graph.remove(node, safe=True)
        for node in reversed(list(all_nodes(self._model))):
            if exceeds(node, self._most) and not self._is_border(node):
                node.meta[WHY] = wrong(node) or self._why(node)

    def _is_border(self, node: onnx_ir.Node) -> bool:
        """Whether a node only brings an input to fewer axes, or an output to more."""
        graph, source = self._model.graph, node.inputs[0] if node.inputs else None
        begins = source in graph.inputs and is_op(node, "Reshape", "Shape")
        ends = node.outputs[0] in graph.outputs and is_op(node, "Reshape")
        values = (source if begins else None, node.outputs[0] if ends else None)
        others = {*node.inputs, *node.outputs} - {*values, None}
        return not any(v is not None and len(v.shape or ()) > self._most for v in others)

    def _restore(self, value: Value, packed: Packed) -> None:
        """Has nodes that weren't written anew take what was, with all its axes."""
        maker = value.producer()
        uses = [use for use in value.uses() if use.node not in self._done]
        if maker not in self._done or not uses:
            return
        made = Work(self._done[maker], {}, 0).view(packed, packed.dims)
        for use in uses:
            use.node.replace_input_with(use.idx, made)

    def _why(self, node: onnx_ir.Node) -> Refused:
        """A node's own reason, or that of a node behind it."""
        own = self._refused.get(node)
        if own is not None:
            return Refused(
                f"{self._limit}: {own.reason} ({node.op_type} {node.name})",
                own.hint
                or "reshape it to fewer axes in the model, or cut the model before it (--output)",
            )
        users = [user for output in node.outputs for user, _ in output.uses()]
        found = [user.meta[WHY] for user in users if isinstance(user.meta.get(WHY), Refused)]
        return found[0] if found else Refused(self._limit, "reshape it in the model")


def _named(dims: Sequence[Size], output: Value) -> tuple[Size, ...]:
    """Sizes with the numbers that are known of them, and names where they have none. The output's
    own are those then: inference may have had another name for a size that was followed here."""
    known = list(output.shape or dims)
    if len(known) != len(dims):
        raise Refused(f"{output.name} is declared with {len(known)} axes, but has {len(dims)}")
    found = tuple(_called(size, dim) for size, dim in zip(dims, known, strict=True))
    if not output.is_graph_output():
        output.shape = onnx_ir.Shape(map(plain, found))
    return found


def _called(size: Size, dim: int | onnx_ir.SymbolicDim | Size) -> Size:
    if isinstance(dim, int):
        return dim
    if isinstance(size, Free) and size.name is None and isinstance(dim, onnx_ir.SymbolicDim):
        return Free(dim.value, lambda: size.value)
    return size
