"""LSTM, GRU and RNN: which of them frameworks' layers compute, and their gates in other orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from converter.ir.attributes import number, text
from converter.ir.edit import constant
from emitters.code.context import shape_of
from emitters.code.steps import Array
from emitters.code.weights import is_weight

_USUAL = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}


def way_of(node: onnx_ir.Node) -> str:
    """``forward``, ``reverse`` or ``bidirectional``."""
    return text(node, "direction", "forward")


def is_rectified(node: onnx_ir.Node) -> bool:
    """Whether its activations are all Relu."""
    return set(_activations(node)) == {"relu"}


def _activations(node: onnx_ir.Node) -> list[str]:
    found = node.attributes.get("activations")
    return [name.lower() for name in found.as_strings()] if found is not None else []


def is_usual(node: onnx_ir.Node) -> bool:
    """Whether layers with the usual activations, of constant weights, compute the same: without
    peepholes, of sequences that are all there."""
    usual, told = _USUAL[node.op_type], _activations(node)
    if told not in ([], usual, usual * 2) and not (node.op_type == "RNN" and is_rectified(node)):
        return False
    if "clip" in node.attributes or number(node, "layout", 0) or number(node, "input_forget", 0):
        return False
    lengths, peepholes = (_given(node, at) for at in (4, 7))
    if peepholes is not None and not _is_all(peepholes, 0):
        return False
    if lengths is not None and not _is_all(lengths, (shape_of(node.inputs[0]) or [None])[0]):
        return False
    return all(is_weight(value) for value in node.inputs[1:4] if value is not None)


def _given(node: onnx_ir.Node, at: int) -> onnx_ir.Value | None:
    return node.inputs[at] if at < len(node.inputs) else None


def _is_all(value: onnx_ir.Value, item: object) -> bool:
    """Whether it is a constant of nothing but an item."""
    array = constant(value)
    return array is not None and bool(np.all(array == item))


def gates(own: Array, order: Sequence[int]) -> Array:
    """Rows of gates in another order."""
    parts = np.split(own, len(order))
    return np.concatenate([parts[at] for at in order])
