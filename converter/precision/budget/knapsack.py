"""Which layers in float win most for so many multiply-adds, if what they win adds up.

The 0/1 knapsack problem by dynamic programming (Bellman's recurrence over items and capacity),
with multiply-adds counted in thousandths of the model's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.precision.budget.sensitivity import Cost

UNITS = 1000
"""Into how many units the model's multiply-adds are divided. Every layer weighs one at least."""


class Knapsack:
    """The best sets of layers for every capacity.

    Args:
        costs: Each layer's cost, which is what leaving it in float wins.
    """

    def __init__(self, costs: Sequence[Cost]) -> None:
        total = sum(cost.macs for cost in costs) or 1
        self._names = [cost.node for cost in costs]
        self._weights = [max(1, round(UNITS * cost.macs / total)) for cost in costs]
        capacity = sum(self._weights)
        won = np.zeros(capacity + 1)
        self._taken = np.zeros((len(costs), capacity + 1), dtype=bool)
        for row, (cost, weight) in enumerate(zip(costs, self._weights, strict=True)):
            with_it = won[:-weight] + cost.cost
            self._taken[row, weight:] = with_it > won[weight:]
            won[weight:] = np.maximum(won[weight:], with_it)

        self._won = won

    def lightest(self, wanted: float) -> int:
        """The fewest units whose best set wins ``wanted``; all of them where none does."""
        enough = np.flatnonzero(self._won >= wanted)
        return int(enough[0]) if enough.size else len(self._won) - 1

    def best(self, capacity: int) -> list[str]:
        """The set that wins most and weighs at most ``capacity`` units, in the costs' order."""
        names = []
        for row in reversed(range(len(self._names))):
            if self._taken[row, capacity]:
                names.append(self._names[row])
                capacity -= self._weights[row]
        return names[::-1]
