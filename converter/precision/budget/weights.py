"""A budget for weights alone in fewer bits: as few of them as it takes have eight bits, and none
is left as it is but where eight bits are too few."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from converter.errors import BudgetError
from converter.ir.model import Model
from converter.precision.budget.budget import WEIGHTS, Budget, Words, met_at_once
from converter.precision.budget.effort import MEASURING, Effort
from converter.precision.budget.goal import Goal
from converter.precision.budget.sensitivity import Cost, Quantize, measure
from converter.precision.quantized import Quantized
from converter.precision.weights.storage import WIDE, WeightStorage
from converter.runtime.session import Progress
from converter.samples import Samples

FOR_WIDE = 0.5
"""The most of what may be lost that weights of eight bits may lose, where some have to stay as they
are: the rest is for those of fewer bits."""


class WeightBudget:
    """Looks for the weights that need more bits.

    Args:
        storage: Of the model's weights.
        model: The float model.
        samples: What costs are measured on.
        keep: Nodes whose weights stay as they are in any case.
        effort: For all of it.
        progress: Told what is being done.
    """

    def __init__(
        self,
        storage: WeightStorage,
        model: Model,
        samples: Samples,
        keep: Collection[str],
        *,
        effort: Effort,
        progress: Progress = lambda text: None,
    ) -> None:
        self._storage, self._model, self._samples = storage, model, samples
        self._keep, self._progress, self._effort = frozenset(keep), progress, effort

    def meet(self, goal: Goal) -> Quantized:
        """The model with the smallest set of weights in more bits that was found to do; sets count
        by the numbers that their weights hold.

        Raises:
            GateError: No set was found.
        """
        plain = self._storage.lower(self._keep)
        score = goal.score(plain)
        if goal.meets(score):
            plain.decisions.append(met_at_once(goal, score))
            return plain
        if not self._storage.narrow:
            return self._search(lambda more: self._storage.lower(self._keep.union(more)), goal)
        everything = set(plain.lowered)
        widest = goal.score(self._storage.lower(self._keep, everything))
        stay, told = self._keep, []
        if not goal.meets(widest):
            made = self._search(
                lambda more: self._storage.lower(
                    self._keep.union(more), everything.difference(more)
                ),
                goal.stricter(FOR_WIDE),
            )
            told = [item for item in made.kept if item.cost is not None and item.instead != WIDE]
            stay = self._keep.union(item.node for item in told)
        try:
            found = self._search(
                lambda more: self._storage.lower(stay, frozenset(more)),
                goal,
                replace(WEIGHTS, where="with eight bits", so="in eight bits"),
                measured=lambda more: self._storage.lower(stay.union(more)),
            )
        except BudgetError:  # that eight bits will do for all others is known
            found = self._all_wide(stay, everything, goal)
        reasons = {item.node: item for item in told}
        found.kept = [reasons.get(item.node, item) for item in found.kept]
        wide = {item.node for item in found.kept if item.instead == WIDE}
        found.lowered = [name for name in found.lowered if name not in wide]
        return found

    def _all_wide(self, stay: frozenset[str], everything: set[str], goal: Goal) -> Quantized:
        made = self._storage.lower(stay, everything)
        reason = f"{goal} may need it so: no smaller set was found"
        made.kept = [
            replace(item, reason=reason) if item.instead == WIDE else item for item in made.kept
        ]
        made.decisions.append(
            f"{goal.in_full}: {goal.score(made, whole=True).said} with eight bits for all; no "
            f"smaller set was found {self._effort.ended}"
        )
        return made

    def _search(
        self,
        lower: Quantize,
        goal: Goal,
        words: Words = WEIGHTS,
        measured: Quantize | None = None,
    ) -> Quantized:
        self._progress("looking for weights that need more bits")
        costs = self._counted(
            measure(
                measured or lower,
                self._model,
                self._samples,
                effort=self._effort.part(MEASURING),
                progress=self._progress,
            )
        )
        return Budget(lower, costs, goal, self._effort, progress=self._progress, words=words).meet()

    def _counted(self, costs: list[Cost]) -> list[Cost]:
        """Costs with the numbers of a node's weights in the place of multiply-adds."""
        return [replace(cost, macs=self._storage.numbers(cost.node)) for cost in costs]
