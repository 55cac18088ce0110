"""The minimum cut of a small network: which of many choices of two cost the least together."""

from __future__ import annotations

from collections import deque

ENDLESS = 1 << 200


class MinCut:
    """A choice of 0 or 1 for each variable, at the least sum of costs for single ones and pairs.

    A pair may cost where one is 0 and the other 1: that is a minimum cut (Kolmogorov and
    Zabih, "What Energy Functions Can Be Minimized via Graph Cuts?", 2004). Solved by Dinic's
    algorithm.
    """

    def __init__(self) -> None:
        self._to: list[int] = []
        self._left: list[int] = []
        self._edges: list[list[int]] = [[], []]  # of 0, the source, and 1, the sink

    def variable(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def one(self, variable: int, cost: int) -> None:
        """``variable`` being 1 costs that."""
        self._add(0, variable, cost)

    def zero(self, variable: int, cost: int) -> None:
        """``variable`` being 0 costs that."""
        self._add(variable, 1, cost)

    def pair(self, zero: int, one: int, cost: int) -> None:
        """Sets a cost for two variables that differ.

        Args:
            zero: The variable that is 0 then.
            one: The variable that is 1 then.
            cost: What that costs, at least 0; costs of several calls add up.
        """
        self._add(zero, one, cost)

    def solve(self) -> set[int]:
        """The variables that are 1 in the cheapest choice with the fewest of them."""
        while self._push():
            pass
        reached, queue = {1}, deque([1])
        while queue:
            for edge in self._edges[queue.popleft()]:
                source = self._to[edge]
                if self._left[edge ^ 1] and source not in reached:
                    reached.add(source)
                    queue.append(source)
        return reached - {1}

    def _add(self, source: int, target: int, cost: int) -> None:
        if cost > 0:
            self._edges[source].append(len(self._to))
            self._edges[target].append(len(self._to) + 1)
            self._to += [target, source]
            self._left += [cost, 0]

    def _push(self) -> bool:
        """One phase: every shortest path is filled; False where there is none."""
        level, queue = {0: 0}, deque([0])
        while queue:
            at = queue.popleft()
            for edge in self._edges[at]:
                target = self._to[edge]
                if self._left[edge] and target not in level:
                    level[target] = level[at] + 1
                    queue.append(target)
        if 1 not in level:
            return False
        pointer = [0] * len(self._edges)
        while self._fill(level, pointer):
            pass
        return True

    def _fill(self, level: dict[int, int], pointer: list[int]) -> bool:
        """Fills one path from the source to the sink."""
        path: list[int] = []
        at = 0
        while at != 1:
            edges = self._edges[at]
            while pointer[at] < len(edges):
                edge = edges[pointer[at]]
                if self._left[edge] and level.get(self._to[edge]) == level[at] + 1:
                    break
                pointer[at] += 1
            if pointer[at] == len(edges):
                if not path:
                    return False
                at = self._to[path.pop() ^ 1]
                pointer[at] += 1
                continue
            path.append(edges[pointer[at]])
            at = self._to[path[-1]]
        least = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= least
            self._left[edge ^ 1] += least
        return True
