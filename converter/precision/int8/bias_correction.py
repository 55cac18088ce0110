"""Biases corrected for what quantization adds to a layer's outputs on average.

Rounding errors of weights, and clipping, don't average out: they move the mean of an output
channel, and the next layers see inputs that they were not trained on. The mean of the
difference to the float model over the samples goes into the bias, layer by layer, each with all
before it quantized and corrected: Nagel et al. 2019, "Data-Free Quantization Through Weight
Equalization and Bias Correction" (empirical bias correction, section 4.2 and appendix D).
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import add_constant, is_constant, is_op
from converter.ir.model import Model
from converter.precision.body_samples import opened_together
from converter.precision.int8.scheme import scheme_of
from converter.precision.layers import Layer, array_of, layers
from converter.precision.quantized import Quantized
from converter.precision.walk import Feeds, Walk, enough
from converter.samples import Samples

Array = np.ndarray[Any, Any]

_INT32_LIMIT = 2.0**30  # half of int32: the other half is for the sum of products


class FloatMeans:
    """The mean of each channel of each layer's output in the float model, computed once.

    Args:
        model: The float model.
        samples: At most as many are used as fit into :data:`converter.precision.walk.MEMORY`.
    """

    def __init__(self, model: Model, samples: Samples) -> None:
        self._model, self._samples = model, samples

    @cached_property
    def feeds(self) -> list[Feeds]:
        """The inputs of the samples that are used."""
        return enough(self._model, self._samples)

    @cached_property
    def of(self) -> dict[str, Array]:
        """Float64 (outputs,), by the layer's name; without the bodies of Ifs and Loops, and
        without layers that can't have a bias."""
        walk = Walk(self._model, self.feeds)
        found = ((layer, channel_means(layer, walk)) for layer in layers(self._model.graph.graph))
        return {layer.name: means for layer, means in found if means is not None}


def correct_biases(
    original: Model, lowered: Quantized, samples: Samples, means: FloatMeans | None = None
) -> Quantized:
    """The lowered model with corrected biases, on a copy.

    A Conv, ConvTranspose or Gemm without a bias gets one; a MatMul is corrected where a
    constant is added to it.

    Args:
        original: The float model that ``lowered`` was made from; nodes are matched by name.
        lowered: int8, with weights as they will be shipped.
        samples: See :class:`FloatMeans`.
        means: Of ``original`` on ``samples``, for who corrects more than once.
    """
    model, means = lowered.model.copy(), means or FloatMeans(original, samples)
    count = _correct(original, model, lowered, means)
    for floats, integers, runs in opened_together(original, model, samples):
        count += _correct_body(floats, integers, lowered, runs)
    line = f"{count} biases corrected, on {len(means.feeds)} samples"
    return replace(lowered, model=model, decisions=[*lowered.decisions, line])


def _correct_body(original: Model, model: Model, lowered: Quantized, samples: Samples) -> int:
    """As :func:`_correct`, for the body of an If or a Loop and the bodies in it."""
    count = _correct(original, model, lowered, FloatMeans(original, samples))
    for floats, integers, runs in opened_together(original, model, samples):
        count += _correct_body(floats, integers, lowered, runs)
    return count


def _correct(original: Model, model: Model, lowered: Quantized, means: FloatMeans) -> int:
    integers = Walk(model, means.feeds)
    mine = {layer.name: layer for layer in layers(model.graph.graph)}
    scheme = scheme_of(lowered.scheme) if lowered.scheme else None
    quantized, integer = set(lowered.lowered), scheme is not None and scheme.bias == "int32"
    count = 0
    for layer in layers(original.graph.graph):
        same, wanted = mine.get(layer.name), means.of.get(layer.name)
        if same is not None and wanted is not None and layer.name in quantized:
            count += correct_bias(same, wanted, integers, integer)
    return count


def channel_means(layer: Layer, walk: Walk) -> Array | None:
    """The mean of each channel of a layer's output, its bias added, float64 (outputs,); None where
    it can't have a bias."""
    place = bias_place(layer)
    return _means(walk.reach(place[0].outputs[0]), layer.channel_axis) if place else None


def correct_bias(quantized: Layer, wanted: Array, integers: Walk, integer: bool) -> bool:
    """Corrects one layer, and what the walk has computed of it.

    Args:
        quantized: The layer in the lowered model.
        wanted: What :func:`channel_means` says of it in the float model.
        integers: A walk over the lowered model that has not passed it.
        integer: Whether a bias that has to be added should be int32.

    Returns:
        Whether it was corrected: it has a bias, or can have one.
    """
    place, found = bias_place(quantized), channel_means(quantized, integers)
    if place is None or found is None:
        return False
    made = place[0].outputs[0]
    change = add_to_bias(quantized, place, (wanted - found).astype(np.float32), integer)
    shape = [1] * integers.rank(made)
    shape[quantized.channel_axis] = -1
    integers.add(made, change.reshape(shape))
    return True


def bias_place(layer: Layer) -> tuple[onnx_ir.Node, int] | None:
    """The node and the input of it that hold a layer's bias, there already or not; None where
    it can't have one: a MatMul to which no constant vector is added."""
    node = layer.node
    if layer.op != "MatMul":
        value = node.inputs[2] if len(node.inputs) > 2 else None
        whole = value is None or (_is_bias(value) and _size(value) == layer.outputs)
        return (node, 2) if whole else None
    uses = list(node.outputs[0].uses())
    if len(uses) != 1 or not is_op(uses[0].node, "Add") or node.outputs[0].is_graph_output():
        return None
    other = uses[0].node.inputs[1 - uses[0].idx]
    if other is None or not _is_bias(other) or _size(other) != layer.outputs:
        return None
    return uses[0].node, 1 - uses[0].idx


def _source(value: onnx_ir.Value) -> onnx_ir.Value:
    """The initializer behind a bias: itself, or what its DequantizeLinear reads."""
    maker = value.producer()
    inner = maker.inputs[0] if maker is not None and is_op(maker, "DequantizeLinear") else None
    return inner if inner is not None else value


def _is_bias(value: onnx_ir.Value) -> bool:
    return is_constant(_source(value))


def _size(value: onnx_ir.Value) -> int:
    """Elements, where the last axis holds all of them; 0 otherwise."""
    shape = array_of(_source(value)).shape
    return int(shape[-1]) if shape and int(np.prod(shape)) == shape[-1] else 0


def _means(values: list[Array], axis: int) -> Array:
    """The mean of each channel over everything else, float64."""
    total, count = 0.0, 0
    for value in values:
        columns = np.moveaxis(value, axis, -1).reshape(-1, value.shape[axis])
        total = total + columns.sum(axis=0, dtype=np.float64)
        count += len(columns)
    return np.asarray(total) / max(count, 1)


def add_to_bias(
    layer: Layer, place: tuple[onnx_ir.Node, int], change: Array, integer: bool
) -> Array:
    """Adds to a layer's bias, which is made where there is none.

    Args:
        layer: The layer.
        place: The node and the input that hold its bias.
        change: What to add, float32, a number for each output channel.
        integer: Whether a new bias becomes int32, where the layer's input has a scale.

    Returns:
        What really was added, float32: int32 biases have steps.
    """
    node, index = place
    old = node.inputs[index] if len(node.inputs) > index else None
    if old is None:
        return _new_bias(layer, change, integer)
    maker = old.producer()
    if maker is None:
        stored = array_of(old)
        _replace(old, node, index, (stored + change.reshape(stored.shape)).astype(stored.dtype))
        return change
    integers, steps = maker.inputs[0], maker.inputs[1]
    assert integers is not None and steps is not None
    step = np.broadcast_to(array_of(steps).astype(np.float64).ravel(), change.shape)
    stored = array_of(integers)
    moved = np.clip(stored + np.rint(change / step), -_INT32_LIMIT, _INT32_LIMIT)
    # a bias that is beyond the limit already stays where it is
    moved = np.where(np.abs(stored) > _INT32_LIMIT, stored, moved).astype(stored.dtype)
    _replace(integers, maker, 0, moved)
    return ((moved.astype(np.float64) - stored) * step).astype(np.float32).ravel()


def _new_bias(layer: Layer, change: Array, integer: bool) -> Array:
    """Gives a layer without a bias one, int32 if it can be: only where its input has a scale."""
    node = layer.node
    graph = node.graph
    assert isinstance(graph, onnx_ir.Graph) and node.inputs[0] is not None
    maker = node.inputs[0].producer()
    node.resize_inputs(max(len(node.inputs), 3))
    if not integer or layer.dequantize is None or not is_op(maker, "DequantizeLinear"):
        node.replace_input_with(2, _constant(graph, f"{node.name}_bias", change))
        return change
    assert maker is not None and maker.inputs[1] is not None
    step = (array_of(maker.inputs[1]).ravel() * layer.scales()).astype(np.float32)
    stored = np.clip(np.rint(change / step.astype(np.float64)), -_INT32_LIMIT, _INT32_LIMIT)
    names = ("bias_quantized", "bias_scale", "bias_zero_point")
    arrays = (stored.astype(np.int32), step, np.zeros(step.shape, np.int32))
    inputs = [
        _constant(graph, f"{node.name}_{name}", array)
        for name, array in zip(names, arrays, strict=True)
    ]
    dequantize = onnx_ir.node("DequantizeLinear", inputs, {"axis": 0}, name=f"{node.name}_bias")
    real = dequantize.outputs[0]
    real.name, real.dtype = f"{node.name}_bias", onnx_ir.DataType.FLOAT
    real.shape = onnx_ir.Shape(step.shape)
    graph.insert_before(node, dequantize)
    node.replace_input_with(2, real)
    return (stored * step).astype(np.float32)


def _replace(old: onnx_ir.Value, node: onnx_ir.Node, index: int, array: Array) -> None:
    """Lets one node read other elements than the rest that reads ``old``."""
    graph = node.graph
    assert isinstance(graph, onnx_ir.Graph) and old.name is not None
    new = _constant(graph, f"{old.name}_corrected", array)
    node.replace_input_with(index, new)
    if not list(old.uses()):
        del graph.initializers[old.name]


def _constant(graph: onnx_ir.Graph, name: str, array: Array) -> onnx_ir.Value:
    taken = set(graph.initializers) | {v.name for node in graph for v in node.outputs}
    taken |= {value.name for value in graph.inputs}
    free = (f"{name}_{number}" for number in itertools.count(2))
    name = name if name not in taken else next(item for item in free if item not in taken)
    return add_constant(graph, name, array)
