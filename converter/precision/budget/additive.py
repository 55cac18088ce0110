"""What layers cost in a sum, corrected by every set of layers that was tried.

Costs that were measured one layer at a time add up to about what is lost, and not quite: in the
model, layers work against one another or cover for one another. Each set of layers that was tried
says what a sum of costs really is. Costs are taken for normal distributions around the measured
ones, and conditioned on what was seen (Bayesian linear regression).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from converter.precision.budget.knapsack import Knapsack
from converter.precision.budget.sensitivity import Cost

Array = np.ndarray[Any, Any]

SPREAD = 0.5
"""Standard deviation of a cost, as a share of it."""

FLOOR = 0.05
"""The same, as a share of the mean cost: a layer that seems to cost nothing may cost something."""

UNSURE = 3.0
"""The same for a cost that is only estimated: a first layer may cost more than all others."""

LEAST = 1e-12
"""A layer that costs nothing alone may cost something beside others that do so too."""

NOISE = 0.05
"""Standard deviation of what sets really lose, as a share of it."""


class Additive:
    """Costs that are learnt.

    Args:
        costs: As measured.
    """

    def __init__(self, costs: Sequence[Cost]) -> None:
        self._costs = list(costs)
        unsure = [cost.how == "estimated" for cost in self._costs]
        self._floor = np.where(unsure, UNSURE, FLOOR)
        self._rows: list[Array] = []
        self._lost: list[float] = []

    def learn(self, keep: Collection[str], lost: float) -> None:
        """What is lost with just these layers in float."""
        self._rows.append(np.array([cost.node not in keep for cost in self._costs], dtype=float))
        self._lost.append(lost)

    def costs(self) -> list[Cost]:
        """The costs by all that was learnt, none below zero."""
        learnt = np.maximum(self._means(), 0.0)
        return [
            replace(cost, cost=float(value))
            for cost, value in zip(self._costs, learnt, strict=True)
        ]

    def lightest(self, allowed: float) -> list[str]:
        """The layers to keep in float so that about ``allowed`` is lost, with the fewest
        multiply-adds."""
        costs = self.costs()
        knapsack = Knapsack(costs)
        return knapsack.best(knapsack.lightest(sum(cost.cost for cost in costs) - allowed))

    def _means(self) -> Array:
        """Of the conditioned distribution."""
        measured = np.maximum([cost.cost for cost in self._costs], LEAST)
        if not self._rows:
            return measured
        seen, lost = np.stack(self._rows), np.array(self._lost)
        measured = measured * self._scale(seen @ measured, lost)
        spread = SPREAD * measured + self._floor * measured.mean() + 1e-15
        shared = seen * spread**2
        noise = np.diag((NOISE * lost + 1e-12) ** 2)
        gain = np.linalg.solve(shared @ seen.T + noise, lost - seen @ measured)
        found: Array = measured + shared.T @ gain
        return found

    @staticmethod
    def _scale(predicted: Array, lost: Array) -> float:
        """By how much the measured costs are too small, all of them alike."""
        total = float(predicted @ predicted)
        return float(predicted @ lost) / total if total > 0 and (lost > 0).any() else 1.0
