"""What each layer's lower precision costs, measured one layer at a time.

A layer is lowered alone, all others left in float, and the model's outputs are compared with the
float model's on a few samples. Errors of different layers are all but independent, so that these
costs (1 - cosine is proportional to the noise's power) about add up. A layer that a scheme only
lowers between lowered neighbours (an Add in int8) is measured the other way round: it alone goes
back to float, and what is won by that is its cost.

Layers are measured in the order of an estimate that takes little time (:mod:`.estimate`), by turns
with the graph's order: that estimate knows nothing of what later layers make of an error. Where
the effort ends before, the others' costs are that estimate, scaled by what was measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from converter.analysis.macs import macs_by_node
from converter.check.accuracy import comparer_for
from converter.check.comparison import Comparison
from converter.check.feeding import Fed
from converter.check.matching import Matching
from converter.check.metrics import Outputs
from converter.errors import ModelError
from converter.ir.model import Model
from converter.precision.budget.candidates import Beside
from converter.precision.budget.effort import Effort
from converter.precision.budget.estimate import own_noise
from converter.precision.fp16.strict import strict
from converter.precision.quantized import Quantized
from converter.runtime.ort import OrtSession
from converter.runtime.session import Progress, Session
from converter.samples import Sample, Samples
from converter.samples.base import sizes_in

Quantize = Callable[[Collection[str]], Quantized]
"""The model at a lower precision, with the named nodes left in float32; raises ModelError where
that leaves nothing that can be lowered."""

SAMPLES = 8
"""Most samples to measure on, spread evenly over those there are."""

ESTIMATED_ON = 2
"""Samples for the estimate."""

BROKEN = 2.0
"""The cost of NaN or Inf where the float model has none: no cosine is worse."""


@dataclass(frozen=True)
class Cost:
    """What a node's lower precision costs.

    Attributes:
        node, op: Which one.
        macs: Its multiply-adds of one inference.
        cost: 1 - cosine of the worst output; 2 for NaN or Inf that wasn't there.
        sqnr_db: Signal to noise of the worst output, the node alone lowered; None where nothing
            was lost, or it wasn't measured so.
        how: ``alone``: lowered alone; ``back``: won by taking it alone back to float;
            ``estimated``: the effort had ended.
    """

    node: str
    op: str
    macs: int
    cost: float
    sqnr_db: float | None = None
    how: Literal["alone", "back", "estimated"] = "alone"


class Judge:
    """The float model's outputs on some samples, and how far another model's are from them.

    Args:
        original: The float model.
        samples: Those to compare on; their outputs are kept in memory.
        rounded: Whether a model is run with all roundings of half a precision
            (:mod:`converter.precision.fp16.strict`), not only those of ONNX Runtime on a CPU.
        matching: Which outputs are lists, whose rows may be in another order where they tie.

    Attributes:
        samples: The samples.
    """

    def __init__(
        self,
        original: Model,
        samples: Sequence[Sample],
        *,
        rounded: bool = False,
        matching: Matching | None = None,
    ) -> None:
        self.samples, self._specs = samples, original.outputs
        self._rounded, self._matching = rounded, matching
        session = OrtSession(original.graph, plain=rounded)
        self._outputs = [session.run(sample.feeds) for sample in samples]
        session.close()

    def pairs(self) -> Iterator[tuple[Sample, Outputs]]:
        """Each sample with the float model's outputs."""
        return zip(self.samples, self._outputs, strict=True)

    def compare(
        self,
        model: Model,
        picks: Collection[int] | None = None,
        also: Callable[[Sample, Outputs], None] | None = None,
        threads: int | None = None,
    ) -> Comparison:
        """How the model's outputs compare with the float model's.

        Args:
            model: Takes the same inputs; floats are cast to the types of its own.
            picks: Which samples, from 0; None for all.
            also: Given each sample, and the model's outputs on it.
            threads: Of the model's session; None for one a core.
        """
        run = strict(model) if self._rounded else model
        session = Fed(OrtSession(run.graph, plain=self._rounded, threads=threads))
        comparison = self.compare_in(session, picks, also)
        session.close()
        return comparison

    def compare_in(
        self,
        session: Session,
        picks: Collection[int] | None = None,
        also: Callable[[Sample, Outputs], None] | None = None,
    ) -> Comparison:
        """Compares what a session gives with the float model's outputs.

        Args:
            session: It runs each sample once.
            picks: Which samples, counted from 0; None for all.
            also: Called with each sample and its outputs.
        """
        comparer = comparer_for(self._specs, self._matching)
        for at, (sample, expected) in enumerate(self.pairs()):
            if picks is None or at in picks:
                found = session.run(sample.feeds)
                comparer.add(expected, found, sample.name)
                if also is not None:
                    also(sample, found)
        return comparer.result()


def cosine_of(comparison: Comparison) -> float:
    """The smallest cosine over samples and float outputs; for a model without such outputs, the
    smallest share of equal values. -1 where there is NaN or Inf that the reference doesn't have.
    """
    outputs = comparison.outputs
    if any(output.introduced or output.altered or output.shape_problem for output in outputs):
        return 1 - BROKEN
    cosine = comparison.cosine
    return min((output.equal for output in outputs), default=1.0) if cosine is None else cosine


def measure(
    lower: Quantize,
    original: Model,
    samples: Samples,
    *,
    effort: Effort,
    progress: Progress | None = None,
    beside: Beside | None = None,
) -> list[Cost]:
    """What each node that ``lower(())`` lowers costs, the most expensive first.

    Args:
        lower: See :data:`Quantize`; called in several threads.
        original: The float model that ``lower`` starts from, every node named.
        samples: At most :data:`SAMPLES` of them are used.
        effort: An evaluation for each layer; after that, costs are estimates.
        progress: Told how far it is.
        beside: How many layers are measured at a time; None for what the machine allows.
    """
    tell = progress or (lambda text: None)
    beside = beside or Beside.of(original)
    few = spread(samples, SAMPLES)
    plain = lower(())
    nodes = {node.name or "": node for node in original.nodes()}
    macs = macs_by_node(original, sizes_in(original, few[0]))
    names = [name for name in nodes if name in set(plain.lowered)]
    tell("estimating what each layer costs")
    noise = own_noise(original, plain.model, plain.lowered, few[:ESTIMATED_ON])
    names = _by_turns(sorted(names, key=lambda name: -noise.get(name, 0.0)), names)
    judge = Judge(original, few)
    whole = 1 - cosine_of(judge.compare(plain.computed))
    at = {name: (name, nodes[name].op_type, macs.get(name, 0)) for name in names}

    def cost_of(name: str) -> Cost:
        return _measured(at[name], names, lower, judge, whole, beside.threads)

    found: dict[str, Cost] = {}
    affordable = itertools.takewhile(lambda name: effort.spend(), names)
    for cost in beside.each(cost_of, affordable):
        found[cost.node] = cost
        tell(f"measured {len(found)} of {len(names)} layers")
    scale = _scale(found, noise)
    for name in names[len(found) :]:
        estimate = min(noise.get(name, 0.0) * scale, BROKEN)
        found[name] = Cost(*at[name], estimate, how="estimated")
    order = {name: place for place, name in enumerate(nodes)}
    return sorted(found.values(), key=lambda cost: (-cost.cost, order[cost.node]))


def _by_turns(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The same names in two orders, mixed: one of the first, one of the second, and so on."""
    return list(dict.fromkeys(name for pair in zip(first, second, strict=True) for name in pair))


def _measured(
    at: tuple[str, str, int], names: Sequence[str], lower: Quantize, judge: Judge, whole: float,
    threads: int,
) -> Cost:  # fmt: skip
    name = at[0]
    alone = _lowered(lower, [other for other in names if other != name])
    if alone is not None and name in alone.lowered:
        comparison = judge.compare(alone.computed, threads=threads)
        return Cost(*at, 1 - cosine_of(comparison), comparison.sqnr_db, "alone")
    back = _lowered(lower, [name])
    without = 0.0 if back is None else 1 - cosine_of(judge.compare(back.computed, threads=threads))
    return Cost(*at, max(0.0, whole - without), None, "back")


def _lowered(lower: Quantize, keep: Collection[str]) -> Quantized | None:
    """``lower(keep)``; None where that leaves nothing to lower, which it refuses."""
    try:
        return lower(keep)
    except ModelError:
        return None


def _scale(found: Mapping[str, Cost], noise: Mapping[str, float]) -> float:
    """Cost for each unit of the estimate, among what was measured."""
    estimated = sum(noise.get(name, 0.0) for name in found)
    return sum(cost.cost for cost in found.values()) / estimated if estimated else 1.0


def spread(samples: Samples, count: int) -> list[Sample]:
    """At most ``count`` samples, evenly from the first to the last."""
    total = len(samples)
    count = min(count, total)
    picks = {i * (total - 1) // max(1, count - 1) for i in range(count)}
    return [sample for number, sample in enumerate(samples) if number in picks]
