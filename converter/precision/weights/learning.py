"""Forms of weights learnt from samples, kept where samples that weren't learnt from say that they
help."""

from __future__ import annotations

from collections.abc import Sequence

from converter.ir.model import Model
from converter.precision.budget.effort import Effort
from converter.precision.int8.rounding import affordable
from converter.precision.layers import Layer, layers
from converter.precision.quantized import Quantized
from converter.precision.validation_split import validation_split
from converter.precision.walk import Walk, enough
from converter.precision.weights.choice import choose
from converter.precision.weights.fitting import Seen, refit
from converter.precision.weights.forms import real
from converter.precision.weights.storage import WeightStorage
from converter.runtime.session import Progress
from converter.samples import Samples


def learn(
    storage: WeightStorage,
    model: Model,
    samples: Samples,
    methods: Sequence[str],
    *,
    effort: Effort,
    progress: Progress = lambda text: None,
) -> None:
    """Fits the forms of a storage to the samples.

    Args:
        storage: Gets the forms and changes of biases, and a line on what was chosen.
        model: The float model.
        samples: The user's own: noise says nothing of what weights are multiplied with.
        methods: Of ``rounding`` and ``bias``: those that may be used.
        effort: Where its clock runs out, the layers not yet reached are left out.
        progress: Told what is being done.
    """
    candidates = tuple(name for name in ("rounding", "bias") if name in methods)
    if not candidates or "none" in methods:
        return
    learnt_from, held = validation_split(samples)
    progress("fitting weights")
    walk = Walk(model, enough(model, learnt_from))
    found = [layer for layer in layers(model.graph.graph) if (layer.name, 1) in storage.weights]
    chosen = affordable(found) if "rounding" in methods else {}
    for number, layer in enumerate(found):
        progress(f"fitting weights of layer {number + 1} of {len(found)}")
        if effort.late():
            break
        value = layer.node.inputs[0]
        assert value is not None
        seen = Seen.of(layer, walk.reach(value), whole=layer.name in chosen)
        for kind in dict.fromkeys([storage.kind, "int8"]):
            _fit(storage, layer, seen, kind)

    def lower(picked: tuple[str, ...]) -> Quantized:
        return storage.lower(fitted="rounding" in picked, corrected="bias" in picked)

    judged, unseen = held or samples, held is not None
    choice = choose(model, lower, candidates, judged, unseen=unseen)
    if "rounding" not in choice.methods:
        storage.learnt.clear()
    if "bias" not in choice.methods:
        storage.changes.clear()
    storage.decisions.append(choice.decision)


def _fit(storage: WeightStorage, layer: Layer, seen: Seen, kind: str) -> None:
    """One layer's form, and what either form's error on average wants added to the bias."""
    weight = storage.weights[layer.name, 1]
    plain = storage.settled(layer.name, 1, kind, fitted=False)
    fitted = plain
    if seen.covariance is not None:
        fitted = refit(storage.form(layer.name, weight, kind, seen.counts), seen)
        storage.learnt[layer.name, 1, kind] = fitted
    for known, form in ((False, plain), (True, fitted)):
        change = seen.bias_change(real(form, weight.shape))
        if change is not None:
            storage.changes[layer.name, kind, known] = change
