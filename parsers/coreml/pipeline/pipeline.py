"""A pipeline becomes one ONNX graph: its models' graphs, joined by the names of features."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir

from converter.errors import ModelError, Unsupported, UnsupportedError
from parsers.coreml.description import images
from parsers.coreml.imported import Imported, graph_of, output
from parsers.coreml.opened import SMALL, Opened
from parsers.coreml.pipeline.joint import Joint
from parsers.coreml.pipeline.small import read_small
from parsers.coreml.refusal import Refusal

_LABELS = ("stringType", "int64Type")

Import = Callable[[Opened], Imported]


def import_pipeline(opened: Opened, importing: Import) -> Imported:
    """The graph of a pipeline.

    Args:
        opened: The file.
        importing: What gives the graph of one of its models.

    Raises:
        UnsupportedError: Models or what joins them can't be expressed in ONNX; all of them.
        ModelError: It is damaged: nothing gives what a model takes.
    """
    told = opened.spec.description
    joint, refused = Joint(told), list[Unsupported]()
    for stage in opened.stages:
        try:
            _join(joint, stage, importing)
        except Refusal as refusal:
            refused.append(Unsupported(stage.name, stage.kind, refusal.reason, refusal.remedy))
            break  # what follows takes what it gives
        except UnsupportedError as error:
            refused += error.items
            break
    if refused:
        raise UnsupportedError(f"{opened.name}: its models can't become one graph", refused)
    outputs, taken = [], set[int]()
    for feature in told.output:
        if feature.name in joint.values:
            value = joint.values[feature.name]
            outputs.append(output(joint.reader, feature.name, value, taken))
        elif not (joint.classes and feature.type.WhichOneof("Type") in _LABELS):
            raise ModelError(
                f"{opened.name} is damaged: no model gives its output {feature.name}",
                code="model-damaged",
            )
    given = {value.name for value in outputs}
    classes = {name: labels for name, labels in joint.classes.items() if name in given}
    answer = [item for item in joint.answer if {item["output"], item.get("scores")} <= given]
    graph = graph_of(joint.reader, list(joint.inputs.values()), outputs)
    return Imported(graph, classes, answer, joint.notes)


def _join(joint: Joint, stage: Opened, importing: Import) -> None:
    """Adds one of the models: what it gives stands for its features from then on."""
    if stage.kind in SMALL:
        joint.reader.op = stage.name
        read_small(joint, stage)
        return
    told = stage.spec.description
    if told.state:
        raise Refusal("it keeps state between runs", "Convert that model by itself.")
    made = importing(stage)
    graph = made.graph.graph
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    names = [value.name or "" for value in outputs]
    pictures = images(told)
    _take_out(joint, graph, stage.name)
    for value in inputs:
        assert value.name is not None
        given = joint.take(value.name, value, pictures.get(value.name))
        onnx_ir.convenience.replace_all_uses_with(value, given)
    joint.give(dict(zip(names, outputs, strict=True)), pictures)
    joint.classes.update(made.classes)


def _take_out(joint: Joint, graph: onnx_ir.Graph, stage: str) -> None:
    """Moves a graph's nodes and weights to the joint one, with names of the model's own. Sizes that
    are free there are called as the joint graph's inputs call them, so they are left to be told."""
    reader, weights = joint.reader, list(graph.initializers.values())
    nodes = list(graph)
    every = list(onnx_ir.traversal.RecursiveGraphIterator(graph))
    graph.inputs.clear()
    graph.outputs.clear()
    graph.initializers.clear()
    graph.remove(nodes)
    for weight in weights:
        weight.name = reader.names.free(f"{stage}/{weight.name}")
    for node in every:
        node.name = reader.names.free(f"{stage}/{node.name}")
        for value in node.outputs:
            value.name = reader.names.free(f"{stage}/{value.name}")
            if value.shape is not None and not value.shape.is_static():
                value.shape = None
    reader.nodes += nodes
    reader.initializers += weights
