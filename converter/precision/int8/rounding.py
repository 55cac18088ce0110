"""Weights of int8 rounded by GPTQ, so that a layer's outputs stay put, not each weight.

Rounding every weight to the nearest step is best for the weights and not for what they compute.
Taken one after the other, the error of each rounded weight can be made up for by those that are
still free, because inputs are correlated: with C the covariance of the layer's inputs,

    minimize  trace((W - Q) C (W - Q)^T),  Q on the grid

greedily, the inputs with most variance first, by the Cholesky factor of C's inverse: Frantar et
al. 2022, "GPTQ" (the algorithm of section 3; its ancestor is Optimal Brain Surgeon). AdaRound
(Nagel et al. 2020) minimizes the same by gradient descent on each weight's rounding.

Inputs are those that the layer will see: all before it is quantized, rounded and
bias-corrected. Where the layer has a bias, C is about the mean, as the mean of what is left is
:mod:`converter.precision.int8.bias_correction`'s. Grids and scales are the lowered model's.

The weights aimed at are the float model's. Fitting them first to the quantized inputs (least
squares against the float layer's outputs) made EfficientNet-Lite0 worse on images other than
those it was fitted on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from converter.ir.model import Model
from converter.precision.body_samples import opened_together
from converter.precision.budget.effort import Effort
from converter.precision.int8.bias_correction import bias_place, channel_means, correct_bias
from converter.precision.int8.insert import Limits, quantize
from converter.precision.int8.scheme import Scheme
from converter.precision.layers import Layer, layers, store
from converter.precision.walk import Walk, enough
from converter.precision.weights.gptq import Steps, gptq
from converter.samples import Samples

Array = np.ndarray[Any, Any]

INEXACT = 1e-6
"""What a mean of float32 products is wrong by, as a share of the mean square."""

ROWS = 8192
"""Rows of inputs that C is taken from, over all samples; more where a layer has more inputs."""

FEWEST = 0.25
"""Rows for each input of a layer, below which it isn't rounded this way. Half a row an input still
helped silero-vad; 64 rows for the 1,280 inputs of a classifier don't say what other images do."""

WORK = 6e11
"""Multiply-adds that rounding may take: two minutes of a slow core."""


def round_by_gptq(
    model: Model,
    ranges: Limits,
    scheme: Scheme,
    samples: Samples,
    *,
    work: float = WORK,
    effort: Effort | None = None,
    method: str = "minmax",
    keep: frozenset[str] = frozenset(),
) -> dict[str, Array]:
    """Stored int8 weights for :func:`converter.precision.int8.insert.quantize`, by initializer.

    Args:
        model: The float model, as ``quantize`` gets it.
        ranges: Of the activations, as ``quantize`` gets them.
        scheme: The target's.
        samples: For the covariances; see :func:`converter.precision.walk.enough`.
        work: Multiply-adds. Which layers they are enough for is reckoned beforehand: those that
            compute most come first.
        effort: Where its clock runs out, the layers not yet reached are left out.
        method: How ranges become limits.
        keep: Names of nodes that stay in float32.

    Returns:
        int8 arrays shaped as the weights. A layer that isn't in it is rounded to nearest: that
        wasn't enough, or the samples give fewer rows than :data:`FEWEST` says (a classifier
        behind a pooled image gets one row a sample).
    """
    lowered = quantize(model, ranges, scheme, method=method, keep=keep).model
    return _round_graph(model, lowered, scheme, samples, work, effort or Effort(math.inf))


def _round_graph(
    model: Model,
    lowered: Model,
    scheme: Scheme,
    samples: Samples,
    work: float,
    effort: Effort,
) -> dict[str, Array]:
    """As :func:`round_by_gptq`: of a model's main graph, and of the bodies of Ifs and Loops."""
    feeds = enough(model, samples)
    floats, integers = Walk(model, feeds), Walk(lowered, feeds)
    theirs = {layer.name: layer for layer in layers(lowered.graph.graph)}
    pairs = [
        (layer, theirs[layer.name])
        for layer in layers(model.graph.graph)
        if layer.name in theirs and theirs[layer.name].dequantize is not None
    ]
    chosen = affordable([layer for layer, _ in pairs], work)
    rounded: dict[str, Array] = {}
    for layer, quantized in pairs:
        if layer.name in chosen and not effort.late():
            stored = _round(layer, quantized, integers, scheme.weight_limit)
            if stored is not None:
                store(quantized.weight, stored)
                rounded[layer.weight.name or ""] = stored
        wanted = None if effort.late() else channel_means(layer, floats)
        if wanted is not None:
            correct_bias(quantized, wanted, integers, scheme.bias == "int32")
    left = work - sum(chosen.values())
    for body, twin, runs in opened_together(model, lowered, samples):
        rounded |= _round_graph(body, twin, scheme, runs, left, effort)
    return rounded


def affordable(found: list[Layer], work: float = WORK) -> dict[str, float]:
    """The layers that so many multiply-adds are enough for, the largest first: what each takes."""
    left, chosen = work, {}
    for layer in sorted(found, key=lambda layer: -layer.outputs * layer.inputs):
        cost = _cost(layer)
        if cost <= left:
            left -= cost
            chosen[layer.name] = cost
    return chosen


def _cost(layer: Layer) -> float:
    """Multiply-adds: the covariance, its inverse, and the weights' errors passed on."""
    n = float(layer.inputs)
    return layer.groups * n * n * (_rows(layer) + 2 * n) + layer.outputs * n * n


def _rows(layer: Layer) -> int:
    return max(ROWS, 2 * layer.inputs)


def _round(layer: Layer, quantized: Layer, integers: Walk, limit: int) -> Array | None:
    """One layer's int8 weights; None where the samples have too few rows."""
    value = quantized.node.inputs[0]
    assert value is not None
    covariance = covariance_of(quantized, integers.reach(value), centred=_has_bias(quantized))
    if covariance is None:
        return None
    scales = quantized.scales().astype(np.float64).reshape(layer.groups, -1)
    weights = layer.matrices(layer.real()).astype(np.float64)
    spread = np.broadcast_to(scales[:, :, None], weights.shape)
    rounded = gptq(weights, covariance, Steps(spread, -limit, limit))
    return layer.tensor(rounded).astype(np.int8)


def _has_bias(layer: Layer) -> bool:
    return bias_place(layer) is not None


def covariance_of(layer: Layer, values: list[Array], *, centred: bool) -> Array | None:
    """Mean products of a layer's inputs with one another.

    Args:
        layer: The layer.
        values: Its input on each sample, shaped as the graph has it, float32.
        centred: Whether the products of the means are taken off, which a bias makes up for.

    Returns:
        float64 (groups, inputs, inputs). None with too few rows: what was learned from them would
        hold for them alone.
    """
    if sum(layer.row_count(value) for value in values) < FEWEST * layer.inputs:
        return None
    each = max(1, -(-_rows(layer) // len(values)))
    total = np.zeros((layer.groups, layer.inputs, layer.inputs))
    mean, count = np.zeros((layer.groups, layer.inputs)), 0
    for seed, value in enumerate(values):
        rows = layer.rows(value, each, seed)
        total += np.matmul(rows.transpose(0, 2, 1), rows)
        mean += rows.sum(axis=1, dtype=np.float64)
        count += rows.shape[1]
    mean /= max(count, 1)
    total /= max(count, 1)
    if not centred:
        return total
    # inputs that hardly vary leave no more than what float32 products are wrong by
    at = np.arange(layer.inputs)
    noise = INEXACT * np.einsum("gii->gi", total).mean(axis=1, keepdims=True)
    total -= mean[:, :, None] * mean[:, None, :]
    total[:, at, at] += noise
    return total
