"""Makes a graph what the search for the fewest Transposes found (:mod:`.search`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, all_nodes, is_constant, is_op
from converter.ir.inference import infer
from converter.passes.cleanup.naming import unique
from converter.passes.transposes.families import Family, transpose_cost
from converter.passes.transposes.perm import Perm, identity, permuted, reshape_target, step
from converter.passes.transposes.rules import stored_shape
from converter.passes.transposes.search import Search

_ROUNDS = 10


def push_out(model: onnx_ir.Model) -> bool:
    """Rewrites the main graph and its subgraphs, each by itself, in place.

    Returns:
        Whether something changed.
    """
    _fill_shapes(model)
    modified = False
    for _ in range(_ROUNDS):
        done = [_rewrite(graph, model) for graph in list(model.graphs())]
        if not any(done):
            break
        modified = True
    return modified


def _fill_shapes(model: onnx_ir.Model) -> None:
    """Gives the inner values without a shape the one that follows."""
    values = [out for node in all_nodes(model) for out in node.outputs]
    if all(value.shape is not None for value in values):
        return
    for value, known in infer(model).items():
        if value.shape is None and known.shape is not None and not value.is_graph_output():
            value.shape = known.shape
            value.type = value.type or known.type


def _rewrite(graph: onnx_ir.Graph, model: onnx_ir.Model) -> bool:
    """Rewrites one graph, if that makes it cheaper."""
    nodes = [node for node in graph if is_op(node, "Transpose")]
    if not nodes:
        return False
    search = Search(graph)
    now = sum(_cost_now(node, search) for node in nodes if node in search.joined)
    search.run()
    if search.cost() >= now:
        return False
    _Rewriter(search, model).run()
    return True


def _cost_now(node: onnx_ir.Node, search: Search) -> int:
    source = node.inputs[0]
    assert source is not None
    family, offset = search.member[source]
    return transpose_cost(permuted(family.dims, offset))


def _drop_unused(value: onnx_ir.Value | None) -> None:
    """Removes an initializer that nothing uses any more: its permuted copy took its place."""
    if value is None or value.uses() or value.is_graph_output() or value.graph is None:
        return
    value.graph.initializers.pop(str(value.name), None)


class _Rewriter:
    """Makes a graph what a search found."""

    def __init__(self, search: Search, model: onnx_ir.Model) -> None:
        self._search, self._graph, self._labels = search, search.graph, search.labels
        self._numbers = Counter[str]()
        self._taken: set[str | None] = {
            name
            for graph in model.graphs()
            for name in (
                *graph.initializers,
                *(value.name for value in graph.inputs),
                *(value.name for node in graph for value in node.outputs),
                *(node.name for node in graph),
            )
        }
        self._stored: dict[tuple[onnx_ir.Value, Perm], onnx_ir.Value] = {}
        self._made: dict[onnx_ir.Value, Perm] = {}
        self._shapes: dict[onnx_ir.Value, onnx_ir.Shape] = {}

    def run(self) -> None:
        """Rewrites nodes in order, then what the graph gives, and drops what is left over."""
        old = [node for node in self._graph if node in self._search.joined]
        used = dict.fromkeys(value for node in self._graph for value in node.inputs)
        weights = [value for value in used if is_constant(value)]
        for family in self._search.families.values():
            self._made[family.root] = family.made(self._labels)
        for node in list(self._graph):
            if node not in self._search.joined:
                self._node(node)
            self._captured(node)
        self._outputs()
        for value, shape in self._shapes.items():
            value.shape = shape
        for node in reversed(old):
            self._graph.remove(node, safe=True)
        for weight in weights:
            _drop_unused(weight)

    def _node(self, node: onnx_ir.Node) -> None:
        rule = self._search.rules.get(node)
        label = self._labels[rule] if rule is not None else None
        for index, value in enumerate(node.inputs):
            if value is None or value not in self._search.member:
                continue
            family, offset = self._search.member[value]
            wanted = identity(len(offset))
            if rule is not None and index in rule.inputs:
                wanted = rule.input_perm(label, index)
            stored = self._have(family, tuple(offset[axis] for axis in wanted), node)
            if stored is not value:
                node.replace_input_with(index, stored)
        if rule is None or label == rule.rest:
            return
        rule.rewrite(label, self)
        for index in rule.outputs:
            value = node.outputs[index]
            if value in self._search.families:
                self._shapes[value] = stored_shape(value, rule.output_perm(label, index))

    def _captured(self, node: onnx_ir.Node) -> None:
        """Gives subgraphs the members of families that they use, as they were."""
        for value in node.outputs:
            inner = [use for use in value.uses() if use.node.graph is not self._graph]
            inner = [use for use in inner if use.node.graph is not None]
            if not inner or value not in self._search.member:
                continue
            family, offset = self._search.member[value]
            stored = self._have(family, offset, node, behind=True)
            if stored is not value:
                for use in inner:
                    use.node.replace_input_with(use.idx, stored)

    def _have(
        self, family: Family, wanted: Perm, node: onnx_ir.Node | None, *, behind: bool = False
    ) -> onnx_ir.Value:
        """The value that holds a family's root in an order; made before ``node`` if need be."""
        root, made = family.root, self._made[family.root]
        if wanted == made:
            return root
        if (root, wanted) not in self._stored:
            if family.constant:
                self._stored[root, wanted] = self._transposed(root, wanted)
            else:
                self._stored[root, wanted] = self._step(family, made, wanted, node, behind)
        return self._stored[root, wanted]

    def _step(
        self,
        family: Family,
        made: Perm,
        wanted: Perm,
        node: onnx_ir.Node | None,
        behind: bool,
    ) -> onnx_ir.Value:
        perm, dims = step(made, wanted), permuted(family.dims, made)
        target = reshape_target(dims, perm)
        if target is None:
            new = onnx_ir.node("Transpose", [family.root], {"perm": list(perm)})
        else:
            shape = self.constant(np.asarray(target, np.int64), "shape")
            new = onnx_ir.node("Reshape", [family.root, shape])
        self._place(new, node, behind)
        value = new.outputs[0]
        value.name = self._name(f"{family.root.name}_{''.join(map(str, wanted))}")
        value.type = family.root.type
        value.shape = onnx_ir.Shape(permuted(family.dims, wanted))
        return value

    def _place(self, new: onnx_ir.Node, node: onnx_ir.Node | None, behind: bool = False) -> None:
        new.name = self._name(new.op_type)
        if node is None:
            self._graph.append(new)
        elif behind:
            self._graph.insert_after(node, new)
        else:
            self._graph.insert_before(node, new)

    def _outputs(self) -> None:
        """Gives each output's name, type and shape to the value that holds it now."""
        outputs = self._graph.outputs
        for place, value in enumerate(outputs):
            if value not in self._search.member:
                continue
            family, offset = self._search.member[value]
            stored = self._have(family, offset, None)
            if stored is value:
                continue
            producer = stored.producer()
            if producer is None or producer.graph is not self._graph or stored.is_graph_output():
                again = onnx_ir.node("Identity", [stored])
                self._place(again, None)
                stored = again.outputs[0]
            name = value.name
            stored.type, shape = value.type, value.shape
            value.name = self._name(f"{name}_stored")
            stored.name = name
            self._shapes.pop(stored, None)
            stored.shape = shape.copy() if shape is not None else None
            outputs[place] = stored

    # -- what rules use --------------------------------------------------------------

    def constant(self, array: np.ndarray[Any, Any], like: str) -> onnx_ir.Value:
        return self._initializer(onnx_ir.Tensor(np.asarray(array, order="C")), like)

    def permute_constant(self, value: onnx_ir.Value, perm: Perm) -> onnx_ir.Value:
        """The operand that goes with data permuted by ``perm``; of fewer axes, maybe."""
        tensor = value.const_value
        assert tensor is not None
        if tensor.size == 1:
            return value
        if (value, perm) not in self._stored:
            array = tensor.numpy()
            array = array.reshape([1] * (len(perm) - array.ndim) + list(array.shape))
            array = array.transpose(perm)
            while array.shape[0] == 1:
                array = array[0]
            new = onnx_ir.Tensor(np.asarray(array, order="C"), dtype=tensor.dtype)
            self._stored[value, perm] = self._initializer(new, value.name or "constant")
        return self._stored[value, perm]

    def insert(
        self, node: onnx_ir.Node, op: str, inputs: Sequence[onnx_ir.Value], **attributes: Any
    ) -> onnx_ir.Value:
        """The output of a new node before ``node``."""
        new = onnx_ir.node(op, inputs, attributes)
        self._place(new, node)
        new.outputs[0].name = self._name(f"{inputs[0].name}_{op.lower()}")
        return new.outputs[0]

    def _transposed(self, value: onnx_ir.Value, perm: Perm) -> onnx_ir.Value:
        tensor = value.const_value
        assert tensor is not None
        array = np.asarray(tensor.numpy().transpose(perm), order="C")
        return self._initializer(onnx_ir.Tensor(array, dtype=tensor.dtype), value.name or "")

    def _initializer(self, tensor: onnx_ir.Tensor[Any], like: str) -> onnx_ir.Value:
        return add_constant(self._graph, self._name(like), tensor)

    def _name(self, like: str) -> str:
        """A name that is free: ``like``, or that with a number."""
        return unique(like, self._taken, self._numbers)
