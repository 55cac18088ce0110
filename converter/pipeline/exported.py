"""Tells an exporter's mistake as the exporter's: a graph whose types or ranks contradict themselves.

The model that was read runs in its own framework, and nothing has changed the graph yet: what ONNX
Runtime refuses of it is neither the user's nor a pass's.
"""

from __future__ import annotations

import re

import onnx_ir

from converter.errors import ModelError, Unsupported, UnsupportedError
from converter.ir.edit import all_nodes
from converter.ir.model import Model

_LACKS = "Could not find an implementation"
"""What ONNX Runtime says where it has no kernel for what is right."""

_WORD = re.compile(r"[\w./:$-]*\w")


def exporters_mistake(model: Model, error: ModelError) -> ModelError:
    """The error of a graph that an exporter wrote and ONNX Runtime refuses; ``error`` itself where
    there was no exporter, or ONNX Runtime only lacks a kernel.

    Args:
        model: As it was exported.
        error: What ONNX Runtime says of it: where it loads it, or runs a sample that the model
            itself takes.
    """
    exporter, framework = (model.source.get(key) for key in ("exporter", "framework"))
    if not exporter or _LACKS in error.message:
        return error
    who = f"{exporter} ({framework})" if framework else str(exporter)
    node = _named(model, error.message)
    told = Unsupported(
        (node.name or "") if node is not None else "",
        node.op_type if node is not None else "a node",
        error.message,
        "write that part of the model with other operators, cut the model before it (--output), or "
        "try another version of the exporter",
    )
    return UnsupportedError(
        f"{who} wrote a graph that contradicts itself",
        [told],
        hint="The mistake is the exporter's: the model itself runs, and the graph is as it wrote "
        "it.",
    )


def _named(model: Model, text: str) -> onnx_ir.Node | None:
    """The node that a message names, by its name or that of what it gives."""
    words = dict.fromkeys(_WORD.findall(text))
    known: dict[str, onnx_ir.Node] = {}
    for node in all_nodes(model.graph):
        known.update({value.name: node for value in node.outputs if value.name})
        if node.name:
            known[node.name] = node
    return next((known[word] for word in words if word in known), None)
