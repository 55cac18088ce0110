"""What a bias correction changed, put into the same model lowered a little differently.

To correct biases takes an inference over all samples, layer by layer. A search that lowers the
model a hundred times takes the changes from one correction instead: what a layer's own rounding
adds to its outputs on average is the same whichever layers before it stay in float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import is_op
from converter.ir.model import Model
from converter.precision.int8.bias_correction import add_to_bias, bias_place
from converter.precision.int8.scheme import scheme_of
from converter.precision.layers import Layer, array_of, layers
from converter.precision.quantized import Quantized
from converter.precision.subgraphs import bodies, take_out

Array = np.ndarray[Any, Any]


def bias_changes(before: Quantized, after: Quantized) -> dict[str, Array]:
    """What was added to each layer's bias, float32 (outputs,), by the layer's name.

    Args:
        before: int8.
        after: The same with other biases, as :func:`.bias_correction.correct_biases` gives it.
    """
    old = {layer.name: _bias(layer) for layer in _all_layers(before.model)}
    found = {}
    for layer in _all_layers(after.model):
        new = _bias(layer)
        if new is not None:
            change = new - (0.0 if (stored := old.get(layer.name)) is None else stored)
            found[layer.name] = change.astype(np.float32)
    return found


def change_biases(lowered: Quantized, changes: Mapping[str, Array]) -> Quantized:
    """``lowered`` with ``changes`` in the biases of the layers that are lowered, on a copy.

    Args:
        lowered: int8; layers that aren't lowered in it stay as they are.
        changes: As :func:`bias_changes` gives them.
    """
    model = lowered.model.copy()
    scheme = scheme_of(lowered.scheme) if lowered.scheme else None
    integer = scheme is not None and scheme.bias == "int32"
    wanted = {name: changes[name] for name in lowered.lowered if name in changes}
    count = _change(model, wanted, integer)
    line = f"{count} biases corrected, as they were with other layers in float32"
    return replace(lowered, model=model, decisions=[*lowered.decisions, line])


def _change(model: Model, changes: Mapping[str, Array], integer: bool) -> int:
    count = 0
    for layer in list(layers(model.graph.graph)):
        place = bias_place(layer)
        if layer.name in changes and place is not None:
            add_to_bias(layer, place, changes[layer.name], integer)
            count += 1
    for node, branch in list(bodies(model.graph.graph)):
        body = take_out(node, branch)
        count += _change(body.model, changes, integer)
        body.put_back()
    return count


def _all_layers(model: Model) -> Iterator[Layer]:
    for graph in model.graph.graphs():
        yield from layers(graph)


def _bias(layer: Layer) -> Array | None:
    """A layer's bias as real numbers, float64 (outputs,); None where it has none."""
    place = bias_place(layer)
    value = place[0].inputs[place[1]] if place and len(place[0].inputs) > place[1] else None
    return None if value is None else _real(value).ravel()


def _real(value: onnx_ir.Value) -> Array:
    """An initializer, or the integers behind a DequantizeLinear, as real numbers."""
    maker = value.producer()
    if maker is None or not is_op(maker, "DequantizeLinear"):
        return array_of(value).astype(np.float64)
    integers, steps = maker.inputs[0], maker.inputs[1]
    assert integers is not None and steps is not None
    real: Array = array_of(integers).astype(np.float64) * array_of(steps).astype(np.float64)
    return real
