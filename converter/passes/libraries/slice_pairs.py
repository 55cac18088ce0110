"""Has onnxscript look for two Slices of one tensor among that tensor's users alone.

For a pattern that ends in several nodes, onnxscript (0.7.2, ``rewriter/_matcher.py``) goes over the
whole graph, for each node of it, whatever its operator. Of the rules that are used here that is
``slice_split_rule`` alone, and was nearly all of the pass's time in a graph of thousands of nodes.
Both Slices have the same data, so its users in the graph's order give the same matches.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir
from onnxscript.rewriter import MatchResult
from onnxscript.rewriter._matcher import SimplePatternMatcher


@dataclass(frozen=True)
class _Part:
    """Some of a graph's nodes, in its order, as the matcher goes over a graph."""

    graph: onnx_ir.Graph
    nodes: list[onnx_ir.Node]

    def __iter__(self) -> Iterator[onnx_ir.Node]:
        return iter(self.nodes)


class AmongUsers(SimplePatternMatcher):  # type: ignore[misc]
    """Matches a pattern of nodes of one operator that have their first input in common."""

    def __init__(self, pattern: Any) -> None:
        super().__init__(pattern)
        self._places: dict[onnx_ir.Node, int] = {}

    def match(
        self,
        model: onnx_ir.Model,
        graph_or_function: onnx_ir.Graph | onnx_ir.Function,
        node: onnx_ir.Node,
        **options: Any,
    ) -> Any:
        """What the matcher of the whole graph finds.

        Args:
            model: The model that the graph is in.
            graph_or_function: Where ``node`` is.
            node: The last node of the pattern.
            **options: The matcher's own.
        """
        operator = self.pattern.output_nodes[0].op_identifier()
        data = node.inputs[0] if node.inputs else None
        if node.op_identifier() != operator or data is None:
            return MatchResult().fail("it is another operator")
        users = {use.node for use in data.uses() if use.idx == 0 and use.node.graph is node.graph}
        alike = [user for user in users if user.op_identifier() == operator]
        graph = (
            graph_or_function
            if isinstance(graph_or_function, onnx_ir.Graph)
            else graph_or_function.graph
        )
        part = _Part(graph, self._in_order(alike, graph))
        return super().match(model, part, node, **options)

    def _in_order(
        self, nodes: list[onnx_ir.Node], graph: Iterable[onnx_ir.Node]
    ) -> list[onnx_ir.Node]:
        """Nodes in the graph's order, which stays while others come and go."""
        if len(nodes) > 1 and not all(node in self._places for node in nodes):
            self._places.update({node: place for place, node in enumerate(graph)})
        return sorted(nodes, key=lambda node: self._places.get(node, 0))


def among_users(rule: Any) -> Any:
    """The rule, which finds what it found, where its pattern has several Slices; else itself."""
    if rule._target_pattern.has_single_output_node:
        return rule
    quick = copy.copy(rule)
    quick._matcher = AmongUsers(rule._target_pattern)
    return quick
