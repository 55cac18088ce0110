"""Gives nodes back to float32 whose rounding shows most in the outputs, as few as it takes.

Only nodes with most of the arithmetic are tried, each alone; then the best of them together, one
more at a time. What is compared has every rounding in it (:mod:`converter.quantize.half_strict`),
not only those that ONNX Runtime makes on a CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from converter.check.metrics import Comparer
from converter.ir import Model
from converter.ort import OrtSession
from converter.quantize.half_strict import strict
from converter.quantize.lowered import Lowered
from converter.samples import Samples

TRIED = {"Conv", "ConvTranspose", "Gemm", "GRU", "LSTM", "MatMul", "RNN"}
SAMPLES = 16
"""Most samples to compare on, the first ones."""

Lower = Callable[[Collection[str]], Lowered]
"""The model in half a precision, with the named nodes in float32."""


def refine(
    lower: Lower, original: Model, samples: Samples, wanted: float, time_limit: float
) -> Lowered:
    """The lowered model, with nodes in float32 where it misses ``wanted`` otherwise.

    Args:
        lower: Lowers the model; its inputs and outputs have to stay in float32.
        original: What it is compared with.
        samples: To compare on.
        wanted: The smallest cosine that any output may have on any sample.
        time_limit: Seconds; after that, the best that was found is given back.
    """
    deadline = time.monotonic() + time_limit
    judge = _Judge(original, samples)
    best = lower(())
    plain = reached = judge.cosine(best)
    if plain >= wanted:
        return best
    gains: dict[str, float] = {}
    for node in original.nodes():
        if node.op_type in TRIED and node.name in best.lowered and time.monotonic() < deadline:
            gains[node.name] = judge.cosine(lower({node.name})) - plain
    keep: dict[str, float] = {}
    for name in sorted(gains, key=lambda name: -gains[name]):
        if reached >= wanted or gains[name] <= 0 or time.monotonic() > deadline:
            break
        tried = lower({*keep, name})
        cosine = judge.cosine(tried)
        if cosine > reached:
            keep[name], best, reached = gains[name], tried, cosine
    return _told(best, keep, f"cosine {plain:.6f} with all in {best.precision}, now {reached:.6f}")


class _Judge:
    def __init__(self, original: Model, samples: Samples) -> None:
        session = OrtSession(original.graph, plain=True)
        self._pairs = [
            (sample, session.run(sample.feeds))
            for sample, _ in zip(samples, range(SAMPLES), strict=False)
        ]
        session.close()

    def cosine(self, lowered: Lowered) -> float:
        """The smallest cosine; -1 for NaN or Inf that wasn't there."""
        session, comparer = OrtSession(strict(lowered.model).graph, plain=True), Comparer()
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
