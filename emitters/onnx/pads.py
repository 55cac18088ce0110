"""Keeps ONNX Runtime from doing a padding in the pooling behind it, where that changes results.

Its rewrite ``Pad_Fusion`` (level basic, so in every session with default options; seen in 1.31)
puts a Pad by zeros into the MaxPool behind it, which pads with minus infinity: what was zero is
then ignored. Where pads add up to the window's size, the pooling that it makes is refused. It
leaves a Pad alone that lists its axes, which says the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, is_op
from converter.ir.model import Model

_AXES = 18
"""The first opset whose Pad has axes."""


def keep_pads(model: Model) -> Model:
    """The model; a copy where there is such a Pad, which then lists all axes.

    Opsets before 18 have no axes: such a model stays as it is.
    """
    if model.opset < _AXES or not any(True for _ in _endangered(model)):
        return model
    copy = model.copy()
    for node in list(_endangered(copy)):
        _list_axes(node)
    return copy


def _endangered(model: Model) -> Iterator[onnx_ir.Node]:
    for graph in model.graph.graphs():
        for node in graph:
            if is_op(node, "Pad") and len(node.inputs) < 4 and _rank(node) and _is_pooled(node):
                yield node


def _is_pooled(node: onnx_ir.Node) -> bool:
    for user, _ in node.outputs[0].uses():
        if is_op(user, "MaxPool", "AveragePool"):
            return True
        if is_op(user, "Cast") and _is_pooled(user):
            return True
    return False


def _rank(node: onnx_ir.Node) -> int:
    """The number of axes, by how many pads there are; 0 where they aren't known."""
    pads = node.inputs[1]
    if pads is None or pads.const_value is None:
        return 0
    return pads.const_value.size // 2


def _list_axes(node: onnx_ir.Node) -> None:
    graph = node.graph
    assert isinstance(graph, onnx_ir.Graph)
    name = f"{node.outputs[0].name}_axes"
    while name in graph.initializers:
        name += "_"
    axes = add_constant(graph, name, np.arange(_rank(node), dtype=np.int64))
    node.resize_inputs(4)
    node.replace_input_with(3, axes)
