"""Forms of weights fitted to what the weights are multiplied with.

What counts isn't a weight's error but that of the layer's outputs. With C the mean products of the
layer's inputs with one another (their covariance where the layer has a bias: that takes up the mean
of what is left),

    scales and tables    weight errors squared, times the diagonal of C
    stored numbers       trace((W - Q) C (W - Q)^T), one input after the other, each error passed on
                         to the weights that are still free (GPTQ, :mod:`.gptq`)

Inputs are the float model's, so that a layer's form depends on no other layer's: sets of layers
that a budget tries need nothing fitted anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from converter.precision.int8.bias_correction import bias_place
from converter.precision.int8.rounding import ROWS, covariance_of
from converter.precision.layers import Layer, array_of
from converter.precision.weights.forms import Array, Form
from converter.precision.weights.gptq import Grid, Steps, Tables, gptq

_FLOOR = 0.01
"""The least that an input's weights count for, as a share of what they do on average."""


@dataclass(frozen=True)
class Seen:
    """What the samples say of a layer's inputs.

    Attributes:
        layer: In the float model.
        mean: float64 (groups, inputs).
        covariance: float64 (groups, inputs, inputs); None where there are too few rows, or no time.
    """

    layer: Layer
    mean: Array
    covariance: Array | None

    @classmethod
    def of(cls, layer: Layer, values: list[Array], *, whole: bool) -> Seen:
        """What samples say, of the layer's input on each.

        Args:
            layer: In the float model.
            values: The layer's input on each sample, shaped as the graph has it, float32.
            whole: Whether the covariance is computed as well, which takes long.
        """
        each = max(1, -(-ROWS // len(values)))
        rows = [layer.rows(value, each, seed) for seed, value in enumerate(values)]
        count = max(1, sum(part.shape[1] for part in rows))
        mean = sum(part.sum(axis=1, dtype=np.float64) for part in rows) / count
        centred = bias_place(layer) is not None
        covariance = covariance_of(layer, values, centred=centred) if whole else None
        return cls(layer, mean, covariance)

    @property
    def counts(self) -> Array | None:
        """How much each weight's squared error counts, shaped as the weight; None for all alike."""
        if self.covariance is None:
            return None
        variance = np.einsum("gii->gi", self.covariance)
        least = _FLOOR * variance.mean(axis=1, keepdims=True)
        counts = np.maximum(np.where(least > 0, variance, 1.0), least)[:, None, :]
        outputs = self.layer.outputs // self.layer.groups
        spread = np.broadcast_to(counts, (counts.shape[0], outputs, counts.shape[2]))
        typed: Array = self.layer.tensor(spread).astype(np.float32)
        return typed

    def bias_change(self, real: Array) -> Array | None:
        """What keeps the means of the outputs, float32 (outputs,), with the weight stored as
        ``real``; None where the layer can't have a bias."""
        if bias_place(self.layer) is None:
            return None
        lost = self.layer.matrices(array_of(self.layer.weight).astype(np.float64) - real)
        change = np.einsum("goi,gi->go", lost, self.mean).reshape(-1) * self.layer.alpha
        return np.asarray(change, np.float32)


def refit(form: Form, seen: Seen) -> Form:
    """The form with other stored numbers, its scales or tables as they are; itself where there is
    no covariance, or for a ConvTranspose."""
    layer, covariance = seen.layer, seen.covariance
    if covariance is None or layer.op == "ConvTranspose":
        return form
    weights = layer.matrices(array_of(layer.weight)).astype(np.float64)
    stored = gptq(weights, covariance, _grid(form, weights.shape))
    if form.kind == "int8" or (form.kind == "palette" and len(form.table) == 1):
        stored = layer.tensor(stored)  # the others have output channels first
    typed = np.ascontiguousarray(stored).astype(form.stored.dtype)
    return replace(form, stored=typed.reshape(form.stored.shape))


def _grid(form: Form, shape: tuple[int, ...]) -> Grid:
    groups, outputs, inputs = shape
    table = form.table.astype(np.float64)
    if form.kind == "palette":
        which = np.arange(groups * outputs) * len(table) // (groups * outputs)
        return Tables(table, which.reshape(groups, outputs))
    scales = table.reshape(groups, outputs, -1)
    spread = scales.repeat(inputs // scales.shape[2], axis=2)
    return Steps(spread, *((-8, 7) if form.kind == "int4" else (-127, 127)))
