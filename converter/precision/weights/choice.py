"""Which of the methods for weights are kept: those that help on samples they never saw.

Rounding fitted to a layer's inputs, and biases that take up its mean error, help most models and
harm some, where a few calibration samples say little of others. So int8 is made without them,
with each, and with all, and the best on held-out samples is what the model gets. Where there are
too few samples to hold any out, a method has to be better by far on those it learnt from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from converter.check.comparison import Comparison, OutputResult
from converter.ir.model import Model
from converter.precision.budget.sensitivity import Judge, cosine_of, spread
from converter.precision.quantized import Quantized
from converter.samples import Samples
from converter.text import words

JUDGED_ON = 16
"""Most samples to judge on."""

BY_FAR = 0.5
"""On samples that were learnt from, which flatter a method, it is taken where with it less than
this share is lost."""

CLEARLY = 0.9
"""A method is left out where without it less than this share is lost: few samples say no more."""

Methods = tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """The methods that are kept, and why.

    Attributes:
        methods: In the order of the candidates.
        decision: A line for the report.
    """

    methods: Methods
    decision: str


def choose(
    original: Model,
    lower: Callable[[Methods], Quantized],
    methods: Sequence[str],
    judged: Samples,
    *,
    unseen: bool = True,
) -> Choice:
    """The largest subset of ``methods`` than which none is clearly better; where the samples were
    learnt from, the smallest than which none is better by far.

    Args:
        original: The float model.
        lower: The model in int8, with these methods.
        methods: Those that there are.
        judged: Samples to judge on.
        unseen: Whether no method learnt from them.
    """
    whole = tuple(methods)
    subsets = sorted(_subsets(whole), key=len, reverse=True)
    picked = spread(judged, JUDGED_ON)
    judge = Judge(original, picked)
    scores = {subset: likeness(judge.compare(lower(subset).model)) for subset in subsets}
    least = 1 - max(scores.values())
    order, share = (subsets, CLEARLY) if unseen else (subsets[::-1], BY_FAR)
    best = next(s for s in order if least >= share * (1 - scores[s]))
    others = ", ".join(f"{_named(s)} {words.cosine(scores[s])}" for s in subsets if s != best)
    return Choice(
        best,
        f"{_named(best)} of weights: cosine {words.cosine(scores[best])} on {len(picked)} "
        f"calibration samples {'held out' if unseen else 'that were learnt from: there are few'}; "
        f"{others}",
    )


def likeness(comparison: Comparison) -> float:
    """The cosine of the worst float output: the smaller of the mean over samples and of all
    values together. As :func:`cosine_of` where there is no such output, or NaN or Inf."""
    worst = cosine_of(comparison)
    found = [_cosine(output) for output in comparison.floats]
    known = [cosine for cosine in found if cosine is not None]
    return min(known) if known and worst >= 0 else worst


def _cosine(output: OutputResult) -> float | None:
    both = [cosine for cosine in (output.cosine_mean, output.cosine_all) if cosine is not None]
    return min(both, default=None)


def _subsets(methods: Methods) -> list[Methods]:
    found: list[Methods] = [()]
    for method in methods:
        found += [(*subset, method) for subset in found]
    return found


def _named(methods: Methods) -> str:
    return " and ".join(_WORDS[method] for method in methods) or "plain rounding"


_WORDS = {"rounding": "GPTQ rounding", "bias": "bias correction"}
