"""A model in int8 with any set of nodes left in float: what a search for that set needs.

The order: weights are equalized between layers where asked for, channels brought to one size where
integers begin and end (both exact in float, :mod:`.channels`); then weights are rounded so
that each layer's output stays, then biases take up the mean error that is left. Rounding and
biases are kept where held-out samples say that they help (:mod:`.weight_choice`); what is kept of
biases is then fitted to all samples.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from converter.analysis.macs import macs_by_node
from converter.ir.model import Model
from converter.precision.budget.effort import Effort
from converter.precision.budget.sensitivity import Judge, cosine_of, spread
from converter.precision.calibrate.ranges import Ranges, collect
from converter.precision.int8.bias_changes import bias_changes, change_biases
from converter.precision.int8.bias_correction import FloatMeans, correct_biases
from converter.precision.int8.channel_scales import scale_channels
from converter.precision.int8.equalize import equalize
from converter.precision.int8.hybrid import with_rounding
from converter.precision.int8.insert import quantize
from converter.precision.int8.placement import possible_tensors
from converter.precision.int8.rounding import round_by_gptq
from converter.precision.int8.scheme import Scheme
from converter.precision.int8.weight_only import keep_weights_int8
from converter.precision.layers import layers
from converter.precision.quantized import Quantized
from converter.precision.validation_split import validation_split
from converter.precision.weights.choice import Methods, choose
from converter.runtime.session import Progress
from converter.samples import Samples

Array = np.ndarray[Any, Any]

HELD = 16
"""Samples that channels of one size are judged on: they aren't fitted to them, but by their
largest values."""

WORTH = 1.5
"""How much closer to float a model has to be for the operators that evening out adds."""


QUICK = 400
"""Layers times samples up to which biases are fitted anew each time: a second or so."""


class Int8:
    """Lowers one model by one scheme, again and again.

    Args:
        model: The float model, its masks clamped.
        ranges: Measured on ``samples``.
        scheme: The target's.
        samples: To learn from and to judge weight methods on.
        keep: Nodes that stay in float in any case.
        methods: Of ``equalize``, ``rounding``, ``bias``: those that may be used.
        calibration: How ranges become limits.
        sizes: Of free dimensions, for counting multiply-adds.
        effort: Its clock, where it has one, ends rounding.
        progress: Told what is being done.

    Raises:
        UsageError, ModelError: See :func:`converter.precision.int8.insert.quantize`.
    """

    def __init__(
        self,
        model: Model,
        ranges: Ranges,
        scheme: Scheme,
        samples: Samples,
        *,
        keep: Collection[str] = (),
        methods: Sequence[str] = ("rounding", "bias"),
        calibration: str = "mse",
        sizes: Mapping[str, int] | None = None,
        effort: Effort | None = None,
        progress: Progress = lambda text: None,
    ) -> None:
        self._model, self._ranges, self._scheme, self._samples = model, ranges, scheme, samples
        self._always, self._calibration, self._progress = frozenset(keep), calibration, progress
        self._macs = macs_by_node(model, sizes or {})
        self._decisions: list[str] = []
        self._rounded: Mapping[str, Array] = {}
        self._changes: dict[str, Array] | None = None
        if "equalize" in methods:
            self._equalize(samples)
        if "none" not in methods:
            self._even(samples)
        candidates = tuple(name for name in ("rounding", "bias") if name in methods)
        self._learnt_from, held = validation_split(samples) if candidates else (samples, None)
        if "rounding" in candidates:
            self._round(effort)
        self._methods = candidates and self._choose(model, candidates, held)
        self._means = FloatMeans(self._model, samples)

    @property
    def fits(self) -> bool:
        """Whether there are biases that are fitted to what is in float."""
        return "bias" in self._methods

    @property
    def quick(self) -> bool:
        """Whether fitting takes so little that nothing has to be taken over."""
        count = sum(1 for _ in layers(self._model.graph.graph))
        return count * len(self._samples) <= QUICK

    def settle(self, keep: Collection[str]) -> Quantized:
        """The model with ``keep`` in float too, biases corrected for just that; what is lowered
        next gets the same corrections."""
        made = self._quantized(keep, self._methods)
        if self.fits:
            self._progress("correcting biases")
            before, made = made, correct_biases(self._model, made, self._samples, self._means)
            self._changes = bias_changes(before, made)
        return self._told(made)

    def lower(self, keep: Collection[str]) -> Quantized:
        """The model with ``keep`` in float too, biases as they were last settled."""
        if not self.fits:
            return self._told(self._quantized(keep, self._methods))
        if self._changes is None:
            return self.settle(keep)
        return self._told(change_biases(self._quantized(keep, self._methods), self._changes))

    def _equalize(self, samples: Samples) -> None:
        self._progress("equalizing weights")
        self._model, lines = equalize(self._model)
        self._decisions += lines
        if lines:
            names = possible_tensors(self._model, self._scheme)
            self._ranges = collect(
                self._model, samples, names, few=True, progress=self._progress, strict=False
            )

    def _even(self, samples: Samples) -> None:
        self._progress("bringing channels to one size")
        evened = scale_channels(self._model, self._scheme, samples)
        if evened.tensors:
            fresh = collect(evened.model, samples, evened.tensors, few=True, strict=False)
            ranges = self._ranges.joined(fresh)
            judge = Judge(self._model, spread(samples, HELD))
            plain, better = (
                1 - cosine_of(judge.compare(self._plain(model, known)))
                for model, known in ((self._model, self._ranges), (evened.model, ranges))
            )
            if better * WORTH < plain:
                self._model, self._ranges = evened.model, ranges
                self._decisions += evened.decisions

    def _plain(self, model: Model, ranges: Ranges) -> Model:
        made = quantize(
            model,
            ranges,
            self._scheme,
            method=self._calibration,
            keep=self._always,
            macs=self._macs,
        )
        return made.model

    def _round(self, effort: Effort | None) -> None:
        self._progress("rounding weights")
        self._rounded = round_by_gptq(
            self._model,
            self._ranges,
            self._scheme,
            self._learnt_from,
            effort=effort,
            method=self._calibration,
            keep=self._always,
        )

    def _choose(self, original: Model, candidates: Methods, held: Samples | None) -> Methods:
        self._progress("choosing what to do to weights")
        judged, unseen = held or self._samples, held is not None
        choice = choose(original, self._with, candidates, judged, unseen=unseen)
        self._decisions.append(choice.decision)
        return choice.methods

    def _with(self, methods: Methods) -> Quantized:
        made = self._quantized((), methods)
        return correct_biases(self._model, made, self._learnt_from) if "bias" in methods else made

    def _quantized(self, keep: Collection[str], methods: Methods) -> Quantized:
        made = quantize(
            self._model,
            self._ranges,
            self._scheme,
            method=self._calibration,
            keep=self._always.union(keep),
            rounded=self._rounded if "rounding" in methods else {},
            macs=self._macs,
        )
        if self._scheme.hybrid:
            keep_weights_int8(made, set(keep) - self._always, self._scheme, self._macs)
        return made

    def _told(self, made: Quantized) -> Quantized:
        made.decisions = [*self._decisions, *made.decisions]
        hybrid = {item.node for item in made.kept if item.instead}
        if hybrid:
            made.judged = with_rounding(made.model, hybrid)
        return made
