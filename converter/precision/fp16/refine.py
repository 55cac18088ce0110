"""Gives nodes back to float32 whose rounding shows most in the outputs, as few as it takes.

Only nodes with most of the arithmetic are tried, each alone; then sets of those by which something
was won (:mod:`converter.precision.budget.search`). What is compared has every rounding in it
(:mod:`converter.precision.fp16.strict`), not only those that ONNX Runtime makes on a CPU.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, takewhile

import onnx_ir

from converter.analysis.macs import macs_by_node
from converter.ir.facts import WEIGHTED
from converter.ir.model import Model
from converter.precision.budget.budget import Budget
from converter.precision.budget.candidates import Beside
from converter.precision.budget.effort import Effort
from converter.precision.budget.goal import Goal
from converter.precision.budget.sensitivity import Cost, Quantize
from converter.precision.quantized import Quantized
from converter.samples import Samples
from converter.samples.base import sizes_in
from converter.text import words

SAMPLES = 16
"""Most samples to compare on, the first ones."""

ALONE = 2 / 3
"""The most of the effort that trying nodes alone may take."""


def refine(
    lower: Quantize,
    original: Model,
    samples: Samples,
    wanted: float,
    effort: Effort,
    *,
    beside: Beside | None = None,
) -> Quantized:
    """The lowered model, with nodes in float32 where it misses ``wanted`` otherwise.

    Args:
        lower: Lowers the model; its inputs and outputs have to stay in float32. Called in several
            threads.
        original: What it is compared with.
        samples: To compare on.
        wanted: The smallest cosine that any output may have on any sample.
        effort: After that, the best that was found is given back.
        beside: How many nodes are tried at a time; None for what the machine allows.
    """
    if not any(spec.is_float for spec in original.outputs):
        return lower(())
    few = list(islice(samples, SAMPLES))
    goal = Goal(original, few, min_cosine=wanted, rounded=True)
    plain = lower(())
    score = goal.score(plain)
    if goal.meets(score):
        return plain
    macs = macs_by_node(original, sizes_in(original, few[0]))
    tried, alone = {*plain.lowered}, effort.part(ALONE)
    beside = beside or Beside.of(original)

    def back(node: onnx_ir.Node) -> Cost:
        name = node.name or ""
        made = goal.score(lower({name}), threads=beside.threads)
        gain = made.value - score.value
        return Cost(name, node.op_type, macs.get(name, 0), gain, how="back")

    nodes = (n for n in original.nodes() if n.op_type in WEIGHTED and n.name in tried)
    affordable = takewhile(lambda node: alone.spend(), nodes)
    costs = [cost for cost in beside.each(back, affordable) if cost.cost > 0]
    budget = Budget(lower, costs, goal, effort, plain=(plain, score))
    search = budget.search(partial=True)
    point = search.best or search.nearest
    assert point is not None  # every layer lowered is one
    made = budget.best[0] if budget.best else lower(point.keep)
    gains = {cost.node: cost.cost for cost in costs if cost.node in point.keep}
    made.kept = [
        replace(kept, reason="its rounding shows most in the outputs", cost=gains[kept.node])
        if kept.node in gains
        else kept
        for kept in made.kept
    ]
    made.decisions.append(
        f"cosine {words.cosine(score.value)} with all in {made.precision}, now "
        f"{words.cosine(point.score)}: {len(gains)} nodes were given back to float32"
    )
    return made
