"""Scales of single channels, where integers begin and where they end.

A tensor has one scale in integers, and a spectrum's low frequencies take all of its steps: of the
high ones nothing is left. Where a tensor goes from float to integers, or back, its channels can be
evened out there, and the layer's weights make up for it; in float, nothing changes.

    Given:   Conv(x, w)                        x computed in float
    Result:  Conv(Mul(x, 1 / s), w * s)        s by input channel

    Given:   y = Conv(x, w, b)                 y read in float, and yet written as integers
    Result:  y = Mul(Conv(x, w / s, b / s), s) s by output channel

The first is SmoothQuant's (Xiao et al. 2023, section 4: s = max|x|^a / max|w|^(1-a), the migration
strength a tried out on the samples), by a Mul and not by the layer before, which is in float. The
second costs nothing: each output channel has its own weight scale already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir

from converter.analysis.intermediate_outputs import open_tapped
from converter.ir.edit import add_constant, is_op
from converter.ir.model import Model
from converter.passes.cleanup.naming import name_nodes, name_values
from converter.precision.body_samples import opened_together
from converter.precision.int8.activations import affine
from converter.precision.int8.placement import Placement, place
from converter.precision.int8.scheme import Scheme
from converter.precision.int8.units import Unit, clip_bounds
from converter.precision.int8.weights import spread, store_weight, weight_scales
from converter.precision.layers import Layer, array_of, layers
from converter.samples import Samples

Array = np.ndarray[Any, Any]

UNEVEN = 2.0
"""How much larger the largest output channel is than the middle one, where it is worth a Mul: the
middle one would be left with 7 bits."""

BETTER = 2.0
"""How much less noise there has to be behind a layer with evened inputs to be worth a Mul."""

SHARES = (0.5, 0.75, 1.0)
"""Migration strengths: shares of the difficulty that weights take over from the inputs."""

FLOOR = 1e-3
"""The size of the smallest channel, relative to the largest: samples needn't hold all it can."""

ROWS = 1024
"""Rows of a layer's input that its noise is judged on."""

_PRODUCTS = 2e8  # multiply-adds that one judgement may take


@dataclass
class Scaled:
    """A model with scaled channels.

    Attributes:
        model: The same in float, up to rounding.
        tensors: Those that weren't there before: their ranges have to be measured.
        decisions: What was done, a line each.
    """

    model: Model
    tensors: list[str] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)


def scale_channels(model: Model, scheme: Scheme, samples: Samples) -> Scaled:
    """Scales channels wherever that lessens the noise of int8, on a copy.

    Args:
        model: The float model, as :func:`converter.precision.int8.insert.quantize` gets it.
        scheme: The target's. One that computes everything in integers has no use for it.
        samples: Each is run once for each graph.
    """
    made = Scaled(model.copy())
    if scheme.per_channel and not scheme.whole:
        counts = list(_even(model, made.model, scheme, samples, made.tensors))
        name_values(made.model.graph)
        name_nodes(made.model.graph)
        inputs, outputs = (sum(each) for each in zip(*counts, strict=True))
        if inputs or outputs:
            made.decisions.append(
                f"channels brought to one size before {inputs} layers and behind {outputs}"
            )
    return made


def _even(
    original: Model, model: Model, scheme: Scheme, samples: Samples, tensors: list[str]
) -> Iterator[tuple[int, int]]:
    """For the main graph and each body: how many inputs and outputs were evened."""
    yield _Graph(original, model, scheme).even(samples, tensors)
    for body, twin, runs in opened_together(original, model, samples):
        yield from _even(body, twin, scheme, runs, tensors)


class _Graph:
    """The main graph of a model.

    Args:
        original: It stays as it is.
        model: The same, to be changed.
    """

    def __init__(self, original: Model, model: Model, scheme: Scheme) -> None:
        self._original, self._scheme = original, scheme
        self._graph = model.graph.graph
        placement = place(model, scheme)
        found = {layer.node: layer for layer in layers(self._graph)}
        units = [unit for unit in placement.units if unit.node in found and unit.axis is not None]
        self._entries = [_Entry(found[u.node]) for u in units if _enters(u, placement)]
        self._exits = [_Exit(found[u.node], u) for u in units if _leaves(u, placement)]

    def even(self, samples: Samples, tensors: list[str]) -> tuple[int, int]:
        """Measures, then changes the graph; new tensors are added to ``tensors``."""
        self._measure(samples)
        inputs = [entry for entry in self._entries if entry.even(self._graph, self._scheme)]
        outputs = [end for end in self._exits if end.even(self._graph)]
        tensors += [entry.node.inputs[0].name or "" for entry in inputs]  # type: ignore[union-attr]
        tensors += [end.value.name or "" for end in outputs]
        return len(inputs), len(outputs)

    def _measure(self, samples: Samples) -> None:
        given = {spec.name for spec in self._original.inputs}
        names = [entry.name for entry in self._entries] + [end.name for end in self._exits]
        wanted = dict.fromkeys(names)
        computed = [name for name in wanted if name not in given]
        if not wanted:
            return
        session = open_tapped(self._original.graph, computed, plain=False) if computed else None
        each_limit = -(-ROWS // len(samples))
        for number, sample in enumerate(samples):
            values = dict(sample.feeds) | (session.run(sample.feeds) if session else {})
            for entry in self._entries:
                entry.add(values[entry.name], each_limit, number)
            for end in self._exits:
                end.add(values[end.name])
        if session:
            session.close()


def _enters(unit: Unit, placement: Placement) -> bool:
    """Whether a layer alone reads, as integers, what is computed in float."""
    value = unit.node.inputs[0]
    assert value is not None
    name = value.name or ""
    readers = [use for use in value.uses() if (use.node, use.idx) in placement.read]
    alone = placement.groups.get(name) == (name,) and name not in placement.only
    return alone and len(readers) == 1 and readers[0].node is unit.node


def _leaves(unit: Unit, placement: Placement) -> bool:
    """Whether a convolution's output is quantized for its own kernel's sake alone."""
    name = unit.end.name or ""
    return (
        is_op(unit.node, "Conv")
        and name in placement.only
        and placement.groups.get(name) == (name,)
        and name not in placement.fixed
        and all(clip_bounds(node) == (0.0, float("inf")) for node in unit.folded)
        and not any((use.node, use.idx) in placement.read for use in unit.end.uses())
    )


class _Entry:
    """A layer whose input comes from float."""

    def __init__(self, layer: Layer) -> None:
        self.layer, self.node = layer, layer.node
        self.name = (layer.node.inputs[0].name if layer.node.inputs[0] else None) or ""
        self._rows: list[Array] = []
        self._sizes: Array | None = None
        self._low, self._high = 0.0, 0.0

    def add(self, x: Array, limit: int, seed: int) -> None:
        if self.layer.groups > 1 or not np.isfinite(x).all():
            return
        axis = 1 if self.layer.op in ("Conv", "ConvTranspose") else -1
        sizes = np.abs(np.moveaxis(x, axis, -1)).reshape(-1, x.shape[axis]).max(axis=0)
        self._sizes = sizes if self._sizes is None else np.maximum(self._sizes, sizes)
        self._rows.append(self.layer.rows(x, limit, seed)[0])

    def even(self, graph: onnx_ir.Graph, scheme: Scheme) -> bool:
        """Evens the input out if that helps."""
        if self._sizes is None or self._sizes.size < 2 or not self._sizes.any():
            return False
        weights = self.layer.matrices(self.layer.real())[0]
        most = int(_PRODUCTS / weights.size) + 1
        rows = np.concatenate(self._rows)
        rows = rows[:: -(-len(rows) // most)]
        largest = _floored(self._sizes)
        taps = weights.shape[1] // largest.size
        steep = _floored(np.abs(weights).reshape(len(weights), -1, taps).max(axis=(0, 2)))
        plain = self._noise(rows, weights, np.ones_like(largest), scheme)
        tried = {share: largest**share / steep ** (1 - share) for share in SHARES}
        noise = {s: self._noise(rows, weights, sizes, scheme) for s, sizes in tried.items()}
        best = min(noise, key=lambda share: noise[share])
        if noise[best] * BETTER > plain:
            return False
        sizes = tried[best] / np.exp(np.log(tried[best]).mean())
        self._change(graph, weights, sizes.astype(np.float32))
        return True

    def _noise(self, rows: Array, weights: Array, sizes: Array, scheme: Scheme) -> float:
        """What int8 adds to the layer's outputs, relative to them, each row counted alike."""
        each = np.repeat(sizes, weights.shape[1] // sizes.size)
        x, w = rows / each, weights * each
        chosen = affine(float(x.min(initial=0)), float(x.max(initial=0)), scheme)
        restored = (chosen.store(x).astype(np.float32) - chosen.zero_point) * chosen.scale
        scales = weight_scales(w, 0, scheme.weight_limit)
        stored = store_weight(w, scales, 0, scheme.weight_limit) * spread(scales, 0, 2)
        wanted = rows @ weights.T
        error = ((restored @ stored.T - wanted) ** 2).sum(axis=1)
        power = (wanted**2).sum(axis=1)
        return float(np.mean(error / (power + 1e-3 * power.mean() + 1e-30)))

    def _change(self, graph: onnx_ir.Graph, weights: Array, sizes: Array) -> None:
        x, node, rank = self.node.inputs[0], self.node, len(self.layer.shape)
        assert x is not None
        each = np.repeat(sizes, weights.shape[1] // sizes.size)
        new = self.layer.tensor((weights * each)[None]) / np.float32(self.layer.alpha)
        _give(graph, node, 1, new)
        shape = (-1, *[1] * (rank - 2)) if self.layer.op in ("Conv", "ConvTranspose") else (-1,)
        factor = _constant(graph, f"{node.name}_shrink", (1 / sizes).reshape(shape))
        mul = _mul(x, factor, f"{node.name}_shrink")
        graph.insert_before(node, mul)
        node.replace_input_with(0, mul.outputs[0])


class _Exit:
    """A convolution whose output goes to float."""

    def __init__(self, layer: Layer, unit: Unit) -> None:
        self.layer, self.node, self.value = layer, layer.node, unit.end
        self.name = unit.end.name or ""
        self._sizes: Array | None = None

    def add(self, y: Array) -> None:
        sizes = np.abs(y).max(axis=tuple(axis for axis in range(y.ndim) if axis != 1))
        self._sizes = sizes if self._sizes is None else np.maximum(self._sizes, sizes)

    def even(self, graph: onnx_ir.Graph) -> bool:
        """Evens the output out if its channels are far from even."""
        if self._sizes is None or not np.isfinite(self._sizes).all() or not self._sizes.any():
            return False
        if self._sizes.max() < UNEVEN * float(np.median(self._sizes)):
            return False
        sizes = _floored(self._sizes).astype(np.float32)
        column = sizes.reshape(-1, *[1] * (len(self.layer.shape) - 2))
        weight = self.node.inputs[1]  # no longer the layer's, where its inputs were evened
        assert weight is not None
        _give(graph, self.node, 1, array_of(weight) / column[:, None])
        if len(self.node.inputs) > 2 and self.node.inputs[2] is not None:
            _give(graph, self.node, 2, array_of(self.node.inputs[2]) / sizes)
        self._grow(graph, column)
        return True

    def _grow(self, graph: onnx_ir.Graph, sizes: Array) -> None:
        value, uses = self.value, list(self.value.uses())
        maker = value.producer()
        assert maker is not None
        name = f"{self.node.name}_grow"
        mul = _mul(value, _constant(graph, name, sizes), name)
        graph.insert_after(maker, mul)
        result = mul.outputs[0]
        for use in uses:
            use.node.replace_input_with(use.idx, result)
        for index, output in enumerate(graph.outputs):
            if output is value:
                graph.outputs[index] = result
        value.name = f"{self.name}_even"
        result.name = self.name
        if maker is not self.node:  # what a Relu makes of it is no longer what it was either
            self.node.outputs[0].name = f"{self.node.outputs[0].name}_even"


def _floored(sizes: Array) -> Array:
    """Sizes with none below :data:`FLOOR`."""
    floored: Array = np.maximum(sizes, FLOOR * sizes.max())
    return floored


def _mul(value: onnx_ir.Value, factor: onnx_ir.Value, name: str) -> onnx_ir.Node:
    node = onnx_ir.node("Mul", [value, factor], name=name)
    result = node.outputs[0]
    result.name, result.type, result.shape = f"{name}_out", value.type, value.shape
    return node


def _give(graph: onnx_ir.Graph, node: onnx_ir.Node, index: int, array: Array) -> None:
    """Lets a node read other constants than what else reads the old ones."""
    old = node.inputs[index]
    assert old is not None
    new = _constant(graph, f"{node.name}_even_{index}", array.astype(np.float32))
    node.replace_input_with(index, new)
    if not old.uses() and not old.is_graph_output():
        graph.initializers.pop(old.name or "", None)


def _constant(graph: onnx_ir.Graph, name: str, array: Array) -> onnx_ir.Value:
    while name in graph.initializers:
        name += "_"
    return add_constant(graph, name, array)
