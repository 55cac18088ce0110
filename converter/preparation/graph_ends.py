"""Puts operators behind a model, in the place of an output, whose name stays."""

from __future__ import annotations

import onnx_ir

from converter.errors import UsageError
from converter.ir.model import Model
from converter.passes.legalize.builder import Builder

Value = onnx_ir.Value

_ACTIVATIONS = {"softmax": "Softmax", "sigmoid": "Sigmoid"}


def output_of(model: Model, name: str | None) -> Value:
    """An output by its name."""
    return next(value for value in model.graph.graph.outputs if value.name == name)


def behind(model: Model, value: Value) -> Builder:
    """What writes nodes at the graph's end, in the place of an output."""
    graph = model.graph.graph
    name = value.name or ""
    value.name = f"{name}/source"
    node = onnx_ir.node("Identity", [value], name=f"{name}/answer")
    graph.append(node)
    made = node.outputs[0]
    made.name, made.type, made.shape = name, value.type, value.shape
    graph.outputs[list(graph.outputs).index(value)] = made
    return Builder(node, model.opset)


def put_other(b: Builder, model: Model, made: Value) -> None:
    """Has a value of another type and other sizes take over an output's name and place.

    Args:
        b: Holds the new nodes, behind the node of that output.
        model: The model, whose meaning of the output goes.
        made: The new value.
    """
    name = str(b.node.outputs[0].name)
    b.node.outputs[0].type, b.node.outputs[0].shape = made.type, made.shape
    b.put([made])
    model.meanings.pop(name, None)


def activated(b: Builder, x: Value, activation: str) -> Value:
    """Probabilities of logits, along the last axis.

    Args:
        b: Where the node goes.
        x: The logits.
        activation: ``softmax`` or ``sigmoid``.
    """
    attributes = {"axis": -1} if activation == "softmax" else {}
    return b.op(_ACTIVATIONS[activation], x, **attributes)


def refused(why: str) -> UsageError:
    """What operators can't do."""
    return UsageError(
        f"--prepare graph: {why}",
        code="preparation",
        hint="Leave --prepare graph out. Then files are prepared outside of the graph.",
    )
