"""A graph that was put together of what a file holds, with the file's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir

from converter.ir.model import IR_VERSION, OPSET
from parsers.coreml.reader import Reader

_ML, _ML_OPSET = "ai.onnx.ml", 3
"""The domain of trees, and the version that its operators are written in."""


@dataclass(frozen=True)
class Imported:
    """A file's graph.

    Attributes:
        graph: It, with the file's names.
        classes: Labels, by the output that holds their probabilities.
        answer: What outputs mean besides, as people write it in a recipe.
        notes: What its user has to know.
    """

    graph: onnx_ir.Model
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    answer: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()


def graph_of(
    reader: Reader, inputs: Sequence[onnx_ir.Value], outputs: Sequence[onnx_ir.Value]
) -> onnx_ir.Model:
    """All that a reader has made, as a model.

    Args:
        reader: Whose nodes and constants the graph has.
        inputs: The graph's.
        outputs: The graph's.
    """
    uses = any(node.domain == _ML for node in reader.nodes)
    graph = onnx_ir.Graph(
        inputs,
        outputs,
        nodes=reader.nodes,
        initializers=reader.initializers,
        opset_imports={"": OPSET, **({_ML: _ML_OPSET} if uses else {})},
        name="main",
    )
    graph.sort()
    return onnx_ir.Model(graph, ir_version=IR_VERSION)


def output(reader: Reader, name: str, value: onnx_ir.Value, given: set[int]) -> onnx_ir.Value:
    """A graph's output: a node's that is called as the file calls it.

    Args:
        reader: Of the graph.
        name: Which was kept free for it.
        value: What it gives.
        given: The values that are outputs already, by identity.
    """
    if value.producer() is None or id(value) in given:
        reader.op = name
        made = reader.node("Identity", [value])
        made.shape = value.shape
        value = made
    given.add(id(value))
    value.name = name
    return value
