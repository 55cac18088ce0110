"""Gives nodes back to float32 whose rounding shows most in the outputs, as few as it takes.

Only nodes with most of the arithmetic are tried, each alone; then the best of them together, one
more at a time. What is compared has every rounding in it (:mod:`converter.quantize.half_strict`),
not only those that ONNX Runtime makes on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from converter.check.matching import Matching
from converter.check.metrics import Comparer
from converter.graph.facts import WEIGHTED
from converter.graph.lists import lists_of
from converter.ir import Model
from converter.ort import OrtSession
from converter.quantize.effort import Effort
from converter.quantize.half_strict import strict
from converter.quantize.lowered import Lowered
from converter.report import words
from converter.samples import Samples

SAMPLES = 16
"""Most samples to compare on, the first ones."""

ALONE = 2 / 3
"""The most of the effort that trying nodes alone may take."""

Lower = Callable[[Collection[str]], Lowered]
"""The model in half a precision, with the named nodes in float32."""


def refine(
    lower: Lower, original: Model, samples: Samples, wanted: float, effort: Effort
) -> Lowered:
    """The lowered model, with nodes in float32 where it misses ``wanted`` otherwise.

    Args:
        lower: Lowers the model; its inputs and outputs have to stay in float32.
        original: What it is compared with.
        samples: To compare on.
        wanted: The smallest cosine that any output may have on any sample.
        effort: After that, the best that was found is given back.
    """
    judge = _Judge(original, samples, Matching.of(lists_of(original.graph.graph), wanted))
    best = lower(())
    plain = reached = judge.cosine(best)
    if plain >= wanted:
        return best
    gains: dict[str, float] = {}
    tried, alone = {*best.lowered}, effort.part(ALONE)
    for node in original.nodes():
        if node.op_type in WEIGHTED and node.name in tried and alone.spend():
            gains[node.name] = judge.cosine(lower({node.name})) - plain
    keep: dict[str, float] = {}
    for name in sorted(gains, key=lambda name: -gains[name]):
        if reached >= wanted or gains[name] <= 0 or not effort.spend():
            break
        made = lower({*keep, name})
        cosine = judge.cosine(made)
        if cosine > reached:
            keep[name], best, reached = gains[name], made, cosine
    return _told(
        best,
        keep,
        f"cosine {words.cosine(plain)} with all in {best.precision}, now {words.cosine(reached)}",
    )


class _Judge:
    def __init__(self, original: Model, samples: Samples, matching: Matching) -> None:
        self._matching = matching
        session = OrtSession(original.graph, plain=True)
        self._pairs = [
            (sample, session.run(sample.feeds))
            for sample, _ in zip(samples, range(SAMPLES), strict=False)
        ]
        session.close()

    def cosine(self, lowered: Lowered) -> float:
        """The smallest cosine; -1 for NaN or Inf that wasn't there."""
        session = OrtSession(strict(lowered.model).graph, plain=True)
        comparer = Comparer(matching=self._matching)
        for sample, outputs in self._pairs:
            comparer.add(outputs, session.run(sample.feeds), sample.name)
        session.close()
        found = comparer.result()
        if any(output.introduced or output.shape_problem for output in found.outputs):
            return -1.0
        return 1.0 if found.cosine is None else found.cosine


def _told(lowered: Lowered, gains: dict[str, float], what: str) -> Lowered:
    lowered.kept = [
        replace(kept, reason="its rounding shows most in the outputs", cost=gains[kept.node])
        if kept.node in gains
        else kept
        for kept in lowered.kept
    ]
    lowered.decisions.append(f"{what}: {len(gains)} nodes were given back to float32")
    return lowered
