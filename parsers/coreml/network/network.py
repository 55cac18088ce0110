"""A neural network becomes an ONNX graph: each layer by its reading, all refusals at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir

from converter.errors import ModelError, Unsupported, UnsupportedError
from parsers.coreml.imported import Imported, graph_of, output
from parsers.coreml.network.features import preprocess, read_input, read_output
from parsers.coreml.network.registry import Layer, reading_of
from parsers.coreml.network.tensors import Network
from parsers.coreml.opened import Opened
from parsers.coreml.refusal import MISFITS, Refusal, misfit

_LABEL_KINDS = ("stringType", "int64Type")


def import_network(opened: Opened) -> Imported:
    """The graph of a neural network.

    Raises:
        UnsupportedError: Inputs or layers can't be expressed in ONNX; all of them.
    """
    message, told = opened.network, opened.spec.description
    net = Network(legacy=message.arrayInputShapeMapping == 0)
    refused: list[Unsupported] = []
    for feature in (*told.input, *told.output):
        net.reader.names.free(feature.name)
    inputs = _inputs(net, message, told, refused)
    unknown = _unknown(message.layers)
    if refused or unknown:
        raise _unsupported(opened.name, [*refused, *unknown])
    _layers(net, message.layers, refused)
    if refused:
        raise _unsupported(opened.name, refused)
    classes = _classes(message, told)
    scores = getattr(message, "labelProbabilityLayerName", "") or message.layers[-1].output[0]
    outputs, taken = [], set[int]()
    for feature in told.output:
        if classes and feature.type.WhichOneof("Type") in _LABEL_KINDS:
            continue
        blob = scores if feature.name in classes else feature.name
        if blob not in net.values:
            raise ModelError(
                f"{opened.name} is damaged: no layer gives its output {blob}", code="model-damaged"
            )
        value = read_output(net, feature, net.values[blob])
        outputs.append(output(net.reader, feature.name, value, taken))
    return Imported(graph_of(net.reader, inputs, outputs), classes)


def _unsupported(name: str, items: Sequence[Unsupported]) -> UnsupportedError:
    return UnsupportedError(f"{name}: {len(items)} layers can't be converted to ONNX", items)


def _inputs(
    net: Network, message: Any, told: Any, refused: list[Unsupported]
) -> list[onnx_ir.Value]:
    made = []
    for feature in told.input:
        try:
            made.append(read_input(net, feature))
        except Refusal as refusal:
            refused.append(Unsupported(feature.name, "input", refusal.reason, refusal.remedy))
    if not refused:
        try:
            preprocess(net, message.preprocessing, told)
        except Refusal as refusal:
            refused.append(Unsupported("", "preprocessing", refusal.reason, refusal.remedy))
    return made


def _unknown(layers: Sequence[Any]) -> list[Unsupported]:
    """Layers that there is no reading of."""
    found = []
    for message in layers:
        kind = message.WhichOneof("layer") or "a layer of an unknown kind"
        if reading_of(kind) is None:
            found.append(Unsupported(message.name, kind, f"Modelyard can't read {kind}"))
    return found


def _layers(net: Network, layers: Sequence[Any], refused: list[Unsupported]) -> None:
    """Reads layers in order; what comes after a refused one is left out."""
    for message in layers:
        if any(name not in net.values for name in message.input):
            missing = [name for name in message.input if name not in net.values]
            if not refused:
                raise ModelError(
                    f"it is damaged: nothing gives {missing[0]}, which {message.name} takes",
                    code="model-damaged",
                )
            continue
        try:
            made = _read(net, message)
        except Refusal as refusal:
            kind = message.WhichOneof("layer")
            refused.append(Unsupported(message.name, kind, refusal.reason, refusal.remedy))
            continue
        net.values.update(zip(message.output, made, strict=True))


def _read(net: Network, message: Any) -> Sequence[onnx_ir.Value]:
    kind = message.WhichOneof("layer")
    reading = reading_of(kind)
    assert reading is not None
    net.reader.op = message.name
    inputs = [net.values[name] for name in message.input]
    at = Layer(message.name, kind, getattr(message, kind), inputs, len(message.output))
    try:
        made = reading(net, at)
    except MISFITS as error:
        raise misfit(error) from error
    found = [made] if isinstance(made, onnx_ir.Value) else list(made)
    if len(found) != len(message.output):
        raise Refusal(f"it has {len(message.output)} outputs, not {len(found)}")
    return found


def _classes(message: Any, told: Any) -> dict[str, Sequence[str]]:
    """A classifier's labels, by the output that holds their probabilities."""
    if "stringClassLabels" not in message.DESCRIPTOR.fields_by_name:
        return {}
    kind = message.WhichOneof("ClassLabels")
    labels = list(getattr(message, kind).vector) if kind else []
    return {told.predictedProbabilitiesName: [str(label) for label in labels]}
