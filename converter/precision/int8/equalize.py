"""Cross-layer equalization: channels of neighbouring layers brought to one size, exactly.

    Given:   y = W2 relu(W1 x + b1)
    Result:  y = (W2 S) relu(S^-1 W1 x + S^-1 b1),  S a diagonal of positive numbers

What scales with positive numbers may stand between the layers: Relu, LeakyRelu, PRelu, a Clip
from 0 up without an upper end, pooling, reshapes that leave the channels apart. With

    s_i = sqrt(r1_i r2_i) / r2_i,  r1_i and r2_i the largest weights of channel i in W1 and W2

both have the same range in every channel (Nagel et al. 2019, "Data-Free Quantization Through
Weight Equalization and Bias Correction", section 4.1). Here s_i is rounded to a power of two:
multiplying by it changes no digit of a float, so the model stays the same bit by bit.

A Relu6 is no such function (where it clips, it clips elsewhere afterwards), and no measured
range proves that it never clips: layers around one are left alone, and so are those whose
channels anything else reads, a residual Add above all.

It is for targets with one scale for a whole weight. Where each output channel has its own, the
first layer gains nothing, and activations may end up with less even channels than before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from converter.ir.edit import attribute_int, constant, is_constant, is_op
from converter.ir.facts import HOMOGENEOUS, POOLS, UNARY
from converter.ir.model import Model
from converter.precision.layers import Layer, array_of, layers, store

Array = np.ndarray[Any, Any]

_EQUIVARIANT = HOMOGENEOUS & (POOLS | UNARY | {"PRelu"}) - {"GlobalLpPool", "LpPool"}
"""f(s x) = s f(x) for every s > 0, channel by channel; powers and roots aren't so to the bit."""

_SWEEPS = 20
_FARTHEST = 2.0**20


@dataclass(frozen=True)
class _Pair:
    """Two layers whose weights share channels, and how many inputs of the second read each."""

    first: Layer
    second: Layer
    repeat: int


def equalize(model: Model) -> tuple[Model, list[str]]:
    """The model with equalized channels, on a copy, and what was done, a line for each pair.

    Conv, ConvTranspose and Gemm with constant weights, depthwise chains included; repeated over
    all pairs until nothing changes. The outputs are the same, to the last bit unless a float
    leaves its normal range.
    """
    made = model.copy()
    pairs = list(_pairs(made))
    moved: dict[int, float] = {}
    for _ in range(_SWEEPS):
        changes = [_equalize(pair) for pair in pairs]
        for at, change in enumerate(changes):
            moved[at] = max(moved.get(at, 1.0), change)
        if max(changes, default=1.0) == 1.0:
            break
    lines = [
        f"{pair.first.name} and {pair.second.name}: channels scaled by up to {moved[at]:g}"
        for at, pair in enumerate(pairs)
        if moved[at] > 1.0
    ]
    return made, lines


def _pairs(model: Model) -> Iterator[_Pair]:
    found = list(layers(model.graph.graph))
    by_node = {layer.node: layer for layer in found}
    for first in found:
        if first.op == "MatMul" or first.dequantize is not None or not _own_bias(first):
            continue
        last = _through(first.node.outputs[0])
        second = by_node.get(last[0]) if last is not None and last[1] == 0 else None
        if second is None or second.dequantize is not None:
            continue
        channels = _input_channels(second)
        if channels % first.outputs == 0 and (channels == first.outputs or second.op == "Gemm"):
            yield _Pair(first, second, channels // first.outputs)


def _own_bias(layer: Layer) -> bool:
    """Whether there is no bias, or a constant one that nothing else reads."""
    value = layer.node.inputs[2] if len(layer.node.inputs) > 2 else None
    if value is None:
        return True
    alone = is_constant(value) and len(list(value.uses())) == 1
    return alone and array_of(value).size == layer.outputs


def _through(value: onnx_ir.Value) -> tuple[onnx_ir.Node, int] | None:
    """The one reader of a value behind everything that scales along with it."""
    while not value.is_graph_output():
        uses = list(value.uses())
        if len(uses) != 1:
            return None
        node, index = uses[0].node, uses[0].idx
        if index != 0 or not _scales(node):
            return node, index
        value = node.outputs[0]
    return None


def _scales(node: onnx_ir.Node) -> bool:
    """Whether a node's output is scaled, channel by channel, where its input is."""
    if len(node.outputs) != 1:
        return False  # a MaxPool's indices
    if is_op(node, "Clip"):
        ends = [*node.inputs[1:], None, None][:2]
        low = constant(ends[0])
        return ends[1] is None and low is not None and bool((low == 0).all())
    if is_op(node, "Flatten"):
        return attribute_int(node, "axis", 1) == 1
    return is_op(node, *_EQUIVARIANT) or (is_op(node, "Reshape") and _flattens(node))


def _flattens(node: onnx_ir.Node) -> bool:
    """Whether a Reshape puts all that follows the batch into one axis, channel after channel."""
    before, after = node.inputs[0], node.outputs[0]
    assert before is not None
    if before.shape is None or after.shape is None or len(after.shape) != 2:
        return False
    rest = before.shape[1:]
    known = all(isinstance(size, int) for size in (*rest, after.shape[1]))
    return known and int(np.prod([int(str(size)) for size in rest])) == after.shape[1]


def _input_channels(layer: Layer) -> int:
    """Channels, or columns, of a layer's input."""
    if layer.op == "ConvTranspose":
        return layer.shape[0]
    if layer.op == "Conv":
        return layer.shape[1] * layer.groups
    return layer.inputs


def _by_input(layer: Layer, weights: Array) -> Array:
    """``weights`` as (input channels, everything else); see :func:`_from_input`."""
    matrices = layer.matrices(weights)
    groups, outputs, inputs = matrices.shape
    channels = _input_channels(layer) // groups
    split = matrices.reshape(groups, outputs, channels, inputs // channels)
    return split.transpose(0, 2, 1, 3).reshape(groups * channels, -1)


def _from_input(layer: Layer, rows: Array) -> Array:
    groups, outputs = layer.groups, layer.outputs // layer.groups
    channels = _input_channels(layer) // groups
    split = rows.reshape(groups, channels, outputs, -1).transpose(0, 2, 1, 3)
    return layer.tensor(split.reshape(groups, outputs, -1))


def _equalize(pair: _Pair) -> float:
    """Scales one pair's channels; returns the largest factor or its inverse, 1 for no change."""
    first, second = pair.first, pair.second
    mine = first.matrices(array_of(first.weight))
    theirs = _by_input(second, array_of(second.weight))
    large = np.abs(mine).max(axis=2).ravel().astype(np.float64)
    small = np.abs(theirs).reshape(first.outputs, -1).max(axis=1).astype(np.float64)
    whole = (large > 0) & (small > 0)
    ratio = np.sqrt(np.where(whole, large, 1.0) / np.where(whole, small, 1.0))
    ratio = np.clip(ratio, 1 / _FARTHEST, _FARTHEST)
    factors = np.exp2(np.rint(np.log2(ratio))).astype(np.float32)
    if (factors == 1).all():
        return 1.0
    store(first.weight, array_of(first.weight) * first.spread(1 / factors))
    if len(first.node.inputs) > 2 and first.node.inputs[2] is not None:
        bias = array_of(first.node.inputs[2])
        store(first.node.inputs[2], bias / factors.reshape(bias.shape))
    store(second.weight, _from_input(second, theirs * np.repeat(factors, pair.repeat)[:, None]))
    return float(max(factors.max(), (1 / factors).max()))
