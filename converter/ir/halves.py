"""A model as two, with tensors between them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx_ir
from onnx_ir.convenience import extract

from converter.ir.model import Model


def halves(
    model: Model, tensors: Sequence[str], shapes: Sequence[Sequence[int | str]]
) -> tuple[Model, Model]:
    """The part that gives some tensors, and the part that takes them.

    Args:
        model: Not changed; weights are shared.
        tensors: All that leads from the one to the other.
        shapes: Of each, a number or a symbol for each dimension.

    Returns:
        Both; the tensors have names that are identifiers.
    """
    taken: set[str | None] = {spec.name for spec in (*model.inputs, *model.outputs)}
    names = [_free(name, taken) for name in tensors]
    parts = []
    for is_first in (True, False):
        graph = model.copy().graph
        main = graph.graph
        inputs = [value for value in main.inputs if value.name not in main.initializers]
        outputs = list(main.outputs)
        between = [_named(main, name) for name in tensors]
        if is_first:  # an input may not be an output, too
            between = [_passed(main, value) if value in inputs else value for value in between]
        for value, name, shape in zip(between, names, shapes, strict=True):
            value.name, value.shape = name, onnx_ir.Shape(shape)
        ends = (inputs, between) if is_first else (between, outputs)
        parts.append(_of(model, graph, extract(main, *ends)))
    return parts[0], parts[1]


def _named(graph: onnx_ir.Graph, name: str) -> onnx_ir.Value:
    made = (value for node in graph for value in node.outputs)
    return next(value for value in (*graph.inputs, *made) if value.name == name)


def _passed(graph: onnx_ir.Graph, value: onnx_ir.Value) -> onnx_ir.Value:
    """An input as a tensor that a node gives."""
    node = onnx_ir.node("Identity", [value], name=f"{value.name}/passed")
    node.outputs[0].type = value.type
    graph.append(node)
    return node.outputs[0]


def _free(name: str, taken: set[str | None]) -> str:
    """A name of letters, digits and underlines that isn't taken, and is then."""
    base = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "between"
    made, number = base, 1
    while made in taken:
        number += 1
        made = f"{base}_{number}"
    taken.add(made)
    return made


def _of(model: Model, whole: onnx_ir.Model, graph: onnx_ir.Graph) -> Model:
    graph.name = whole.graph.name
    made = Model(
        onnx_ir.Model(
            graph,
            ir_version=whole.ir_version,
            functions=[function.clone() for function in whole.functions.values()],
        )
    )
    graph.opset_imports.update(whole.graph.opset_imports)
    known = {spec.name for spec in (*made.inputs, *made.outputs)}
    made.meanings = {name: dict(said) for name, said in model.meanings.items() if name in known}
    return made
