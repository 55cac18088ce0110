"""How much a search may do: counted in models that are judged, so that it ends at the same place on
every machine. The clock ends it only where the user says so."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from converter.analysis.macs import PLAIN_RATE
from converter.ir.model import Model

USUAL = 120.0
"""Seconds that a search takes where nobody says how many evaluations it has, reckoned for two cores
of today; how long it really takes depends on the machine."""

MEASURING = 1 / 3
"""The most of a search's effort that measuring what layers cost may take."""

FEWEST, MOST = 16, 1000
"""Evaluations in any case, and at most: where more are affordable, searches end by themselves."""

_FUSED, _NODES, _NUMBERS = 60e9, 2e3, 2e8
"""What two cores work through in a second: multiply-adds as ONNX Runtime fuses them (one operator
after the other: :data:`PLAIN_RATE`); nodes to lower and to open; weights to round."""


class Effort:
    """What a search may spend.

    Args:
        evaluations: Models that may be judged.
        seconds: After so many the clock ends it, and what is found depends on the machine; None
            for never.
        clock: What time it is, in seconds; the system's where None.

    Attributes:
        cut: Whether the clock has ended anything.
    """

    def __init__(
        self,
        evaluations: float,
        seconds: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.cut = False
        self._most, self._seconds, self._clock = evaluations, seconds, clock or time.monotonic
        self._left = evaluations
        self._end = math.inf if seconds is None else self._clock() + seconds
        self._parent: Effort | None = None

    def part(self, share: float) -> Effort:
        """A share of what is left, 0 to 1; what it spends, this has spent."""
        seconds = None if self._seconds is None else share * max(0.0, self._end - self._clock())
        made = Effort(share * self._left, seconds, self._clock)
        made._parent = self
        return made

    def late(self) -> bool:
        """Whether the time is up, where there is a limit."""
        if self._clock() < self._end:
            return False
        effort: Effort | None = self
        while effort is not None:
            effort.cut, effort = True, effort._parent
        return True

    def spend(self, evaluations: float = 1.0) -> bool:
        """Whether there is anything left, or time, for another model; takes it."""
        if self.late() or self._left < evaluations:
            return False
        self.charge(evaluations)
        return True

    def charge(self, evaluations: float) -> None:
        """Takes them, whether they are left or not."""
        effort: Effort | None = self
        while effort is not None:
            effort._left -= evaluations
            effort = effort._parent

    @property
    def option(self) -> str:
        """The option that gives it more."""
        return "--search-seconds" if self.cut else "--search-evaluations"

    @property
    def ended(self) -> str:
        """After what it ended, and which option says so."""
        spent = self._most - max(0.0, self._left)
        after = f"{self._seconds:g} s" if self.cut else f"{spent:.0f} evaluations"
        return f"after {after} ({self.option})"


def reckoned(model: Model, macs: int, samples: int, *, plain: bool = False) -> float:
    """Seconds that lowering a model and running it on so many samples takes, about, on any machine.

    Args:
        model: In float.
        macs: Its multiply-adds on one sample.
        samples: How many.
        plain: Whether it runs one operator after the other.
    """
    held = (value.const_value for value in model.initializers())
    numbers = sum(int(tensor.size) for tensor in held if tensor is not None)
    others = model.node_count() / _NODES + numbers / _NUMBERS
    return macs * samples / (PLAIN_RATE if plain else _FUSED) + others


def usual_evaluations(once: float, seconds: float = USUAL) -> int:
    """How many evaluations a search has where the user says nothing.

    Args:
        once: Seconds that one takes, reckoned.
        seconds: That they may take together.
    """
    return max(FEWEST, min(MOST, int(seconds / max(once, 1e-9))))
