"""What the fusing passes share: rules of pattern, check and rewrite, and what they ask of a graph.

A rule starts at the last node of what it replaces. Its ``pattern`` finds the structure, its
``check`` says in words why a structure that looks right isn't, its ``rewrite`` edits the graph.
What a check refuses is kept as a :class:`Miss`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import onnx_ir
from onnx_ir.passes import PassResult

from converter.ir.edit import bypass, constant_tensor, is_op, replace
from converter.passes.base import SimplifyingPass
from converter.passes.cleanup.naming import name_nodes, name_values

Array = np.ndarray[Any, Any]

ROUNDS = 10
"""Most times that a graph is gone over; a chain shortens by a node a round at least."""

CLOSE = 2.0**-20
"""Relative difference below which a constant is the formula's, rounded: 8 units in the last
place of a float32."""

M = TypeVar("M")


@dataclass(frozen=True)
class Miss:
    """A near match that was left alone.

    Attributes:
        node: The name of the node that the rule started at.
        rule: The rule's name.
        reason: What it found, and what it would have needed.
    """

    node: str
    rule: str
    reason: str


class Rule(ABC, Generic[M]):
    """One rewrite.

    Attributes:
        name: As in a :class:`Miss`.
        roots: Operators that the pattern may end with.
    """

    name: ClassVar[str]
    roots: ClassVar[frozenset[str]]

    @abstractmethod
    def pattern(self, node: onnx_ir.Node) -> M | None:
        """The structure that ends with ``node``; None where there is nothing like it."""

    @abstractmethod
    def check(self, match: M) -> str:
        """Why the match may not be rewritten; empty where it may."""

    @abstractmethod
    def rewrite(self, match: M, edit: Edit) -> None:
        """Puts the new nodes in the place of the match's last one."""


class Edit:
    """Changes to a model's graphs that keep names apart and leave nothing unused behind.

    Attributes:
        made: What a rule made in the place of a value, for the next match with that value.
    """

    def __init__(self, model: onnx_ir.Model) -> None:
        self.made: dict[tuple[str, onnx_ir.Value], onnx_ir.Value] = {}
        self._main = model.graph
        self._constants: dict[tuple[object, ...], onnx_ir.Value] = {}
        self._taken: set[str | None] = set()
        for graph in model.graphs():
            self._taken |= {value.name for value in graph.inputs}
            self._taken |= set(graph.initializers)
            self._taken |= {value.name for node in graph for value in node.outputs}

    def constant(self, array: Array, name: str) -> onnx_ir.Value:
        """A new initializer of the main graph, called ``name`` or something like it; the same
        one again where all of that is the same."""
        key = (name, array.dtype, array.shape, sha256(array.tobytes()).digest())
        known = self._constants.get(key)
        if known is not None and known.graph is self._main and _holds(known, array):
            return known
        number, free = 0, name
        while free in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._taken.add(free)
        value = onnx_ir.Value(name=free)
        _fill(value, array)
        self._main.register_initializer(value)
        self._constants[key] = value
        return value

    def with_contents(self, value: onnx_ir.Value, array: Array, users: int = 1) -> onnx_ir.Value:
        """An initializer with other contents.

        Args:
            value: The initializer. It is changed where nothing else uses it, else a copy is made.
            array: The new contents.
            users: How many places that use ``value`` are meant.
        """
        alone = len(value.uses()) <= users and not value.is_graph_output()
        if alone and value.is_initializer() and value.graph is self._main:
            _fill(value, array)
            return value
        return self.constant(array, value.name or "constant")

    def replace(self, old: onnx_ir.Node, new: onnx_ir.Node, name: str | None = None) -> None:
        """Puts a node in another's place, and drops what only the old one used.

        Args:
            old: The node that goes.
            new: The node that comes; its outputs take the places of the old one's.
            name: What it is called; None for the old one's name.
        """
        inputs = [value for value in old.inputs if value is not None]
        replace(old, new)
        new.metadata_props.update(old.metadata_props)
        self.drop(inputs)
        new.name = name or new.name

    def bypass(self, node: onnx_ir.Node, source: onnx_ir.Value) -> None:
        """Lets everything that used ``node`` use ``source``; where that can't take over an
        output's name, an Identity stays."""
        inputs = [value for value in node.inputs if value is not None]
        if bypass(node, source):
            self.drop(inputs)
        else:
            self.replace(node, onnx_ir.node("Identity", [source]))

    def insert(
        self, before: onnx_ir.Node, new: onnx_ir.Node, like: onnx_ir.Value | None = None
    ) -> onnx_ir.Value:
        """Puts a new node before another one.

        Args:
            before: The node, in the graph that ``new`` goes into.
            new: A node of one output.
            like: Its type and shape become the output's; None where they are set already.

        Returns:
            The new node's output.
        """
        graph = before.graph
        assert graph is not None
        output = new.outputs[0]
        if like is not None:
            output.type = like.type
            output.shape = like.shape.copy() if like.shape is not None else None
        graph.insert_before(before, new)
        return output

    def drop(self, values: Iterable[onnx_ir.Value]) -> None:
        """Removes what computes ``values``, where nothing uses it any more."""
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value.uses() or value.is_graph_output() or value.is_graph_input():
                continue
            node = value.producer()
            if node is None:
                if value.is_initializer() and value.graph is not None:
                    value.graph.initializers.pop(str(value.name), None)
            elif node.graph is not None and not any(map(_needed, node.outputs)):
                waiting += [item for item in node.inputs if item is not None]
                node.graph.remove(node, safe=True)


def _holds(value: onnx_ir.Value, array: Array) -> bool:
    """Whether a constant that was made for ``array`` wasn't changed since."""
    tensor = value.const_value
    return tensor is not None and np.array_equal(tensor.numpy(), array)


def _needed(value: onnx_ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _fill(value: onnx_ir.Value, array: Array) -> None:
    tensor = onnx_ir.tensor(np.ascontiguousarray(array).reshape(array.shape), name=value.name)
    value.const_value = tensor
    value.type = onnx_ir.TensorType(tensor.dtype)
    value.shape = onnx_ir.Shape(array.shape)


class FusePass(SimplifyingPass):
    """A pass that applies rules until none matches.

    Attributes:
        rules: In order of preference at one node.
        misses: Near matches of the last run that were left alone.
    """

    rules: ClassVar[Sequence[Rule[Any]]]

    def __init__(self) -> None:
        self.misses: list[Miss] = []

    def call(self, model: onnx_ir.Model) -> PassResult:
        """Rewrites the main graph and its subgraphs, in place."""
        modified = False
        for _ in range(ROUNDS):
            self.misses = []
            if not self._round(model):
                break
            modified = True
        if modified:
            name_values(model)
            name_nodes(model)
        return PassResult(model, modified)

    def _round(self, model: onnx_ir.Model) -> bool:
        edit, changed = Edit(model), False
        for graph in list(model.graphs()):
            for node in list(graph):
                if node.graph is graph and node.domain in ("", "ai.onnx"):
                    changed |= self._rewrite(node, edit)
        return changed

    def _rewrite(self, node: onnx_ir.Node, edit: Edit) -> bool:
        if any(attribute.is_ref() for attribute in node.attributes.values()):
            return False
        for rule in self.rules:
            match = rule.pattern(node) if node.op_type in rule.roots else None
            if match is None:
                continue
            reason = rule.check(match)
            if not reason:
                rule.rewrite(match, edit)
                return True
            self.misses.append(Miss(node.name or node.op_type, rule.name, reason))
        return False


def floats(value: onnx_ir.Value | None) -> Array | None:
    """A floating-point constant of any size, as float64; None for anything else."""
    tensor = constant_tensor(value)
    if tensor is None or not tensor.dtype.is_floating_point():
        return None
    return tensor.numpy().astype(np.float64)


def scalar(value: onnx_ir.Value | None) -> float | None:
    """The one element of a floating-point constant; None for anything else."""
    tensor = constant_tensor(value)
    if tensor is None or tensor.size != 1 or not tensor.dtype.is_floating_point():
        return None
    return float(tensor.numpy().astype(np.float64).reshape(()))


def as_type_of(array: Array, value: onnx_ir.Value) -> Array:
    """float64 numbers rounded to the type of ``value``."""
    assert value.dtype is not None
    with np.errstate(over="ignore"):
        return np.asarray(array).astype(value.dtype.numpy())


def producer(value: onnx_ir.Value | None, *op_types: str) -> onnx_ir.Node | None:
    """The standard node that computes ``value``, where it is one of these operators."""
    node = value.producer() if value is not None else None
    return node if is_op(node, *op_types) else None


def input_of(node: onnx_ir.Node, index: int) -> onnx_ir.Value | None:
    """An input, or None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def only_used_by(value: onnx_ir.Value, nodes: Iterable[onnx_ir.Node]) -> bool:
    """Whether nothing but ``nodes`` uses a value, which is no graph's output."""
    allowed = set(nodes)
    return not value.is_graph_output() and all(use.node in allowed for use in value.uses())


def used_elsewhere(inner: Iterable[onnx_ir.Node], root: onnx_ir.Node) -> str:
    """Which result between ``inner`` nodes and ``root`` something else needs, in words."""
    nodes = dict.fromkeys([*inner, root])
    for node in nodes:
        if node is root:
            continue
        if node.graph is not root.graph:
            return f"{node.name} is of an outer graph"
        for value in node.outputs:
            if value.is_graph_output():
                return f"{value.name} is an output"
            if not only_used_by(value, nodes):
                return f"{value.name} is used elsewhere too"
    return ""


def either_order(node: onnx_ir.Node) -> list[tuple[onnx_ir.Value, onnx_ir.Value]]:
    """The two inputs of a node, both ways round."""
    if len(node.inputs) != 2 or node.inputs[0] is None or node.inputs[1] is None:
        return []
    first, second = node.inputs[0], node.inputs[1]
    return [(first, second), (second, first)]


def close(one: float, other: float) -> bool:
    """Whether two constants differ by rounding alone."""
    return abs(one - other) <= CLOSE * max(abs(one), abs(other))
