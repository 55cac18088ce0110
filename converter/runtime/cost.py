"""What an artifact costs to run: memory by phase, time by operator.

Both are measured in a process that holds the artifact's runtime and the artifact, and nothing else
(:mod:`converter.runtime.alone`). What isn't measured says why.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

START = "start"
"""The phase before the artifact is opened: its runtime is loaded, and what it will be fed."""

UNKNOWN = "?"
"""In a layer's place where an operator couldn't be joined with one."""


@dataclass(frozen=True)
class Phase:
    """What a process held in a phase, in bytes.

    Attributes:
        name: ``start``, ``open``, ``first run``, ``steady``.
        resident: At its end.
        peak: At most in it.
    """

    name: str
    resident: int
    peak: int


@dataclass(frozen=True)
class Footprint:
    """How much memory an artifact takes, in bytes.

    Attributes:
        phases: In order, resident memory of the whole process.
        arena: What its runtime's arena took, as the runtime tells; None where it doesn't.
        arena_holds: What that is, or why it isn't told.
        activations: The most that tensors between operators need at once, computed from the graph
            at the sizes measured; None where shapes aren't known.
        why: Why nothing was measured; empty where it was.
    """

    phases: tuple[Phase, ...] = ()
    arena: int | None = None
    arena_holds: str = ""
    activations: int | None = None
    why: str = ""

    @property
    def base(self) -> int | None:
        """What was resident before the artifact was opened."""
        return next((phase.resident for phase in self.phases if phase.name == START), None)

    @property
    def peak(self) -> int | None:
        """The most that the artifact added to it, in any phase."""
        peaks = [phase.peak for phase in self.phases if phase.name != START]
        return max(0, max(peaks) - self.base) if peaks and self.base is not None else None


@dataclass(frozen=True)
class OperatorTime:
    """An operator as a runtime ran it.

    Attributes:
        name: As the runtime's profiler has it.
        op: Its kind, likewise.
        place: Where it ran: a provider, a delegate, the runtime's own kernels.
        us: Microseconds of a run.
        layer: The module or scope of the source that it came from, by its path; empty for none.
        joined: Whether that is known.
    """

    name: str
    op: str
    place: str
    us: float
    layer: str = ""
    joined: bool = True


@dataclass(frozen=True)
class Profile:
    """Where the time of a run goes.

    Attributes:
        runtime: What ran and timed itself.
        runs: How many runs the means are of.
        us: Microseconds of a run, profiled, which takes longer than one that isn't.
        operators: In the order they ran.
        why: Why nothing was profiled; empty where it was.
    """

    runtime: str = ""
    runs: int = 0
    us: float = 0.0
    operators: tuple[OperatorTime, ...] = ()
    why: str = ""

    @property
    def outside(self) -> float:
        """Microseconds of a run that no operator took."""
        return max(0.0, self.us - sum(item.us for item in self.operators))

    def by_op(self) -> list[tuple[str, str, int, float]]:
        """Operator, place, how many there are, and their microseconds, most first."""
        found = _summed(((item.op, item.place), item.us) for item in self.operators)
        return [(op, place, count, us) for (op, place), (count, us) in found]

    def by_layer(self) -> list[tuple[str, int, float]]:
        """Layer, how many operators it has, and their microseconds, most first; also of no layer
        (an empty name), and of :data:`UNKNOWN`."""
        found = _summed((i.layer if i.joined else UNKNOWN, i.us) for i in self.operators)
        return [(name, count, us) for name, (count, us) in found]

    def by_place(self) -> list[tuple[str, int, float]]:
        """Place, how many operators ran there, and their microseconds, most first."""
        found = _summed((item.place, item.us) for item in self.operators)
        return [(name, count, us) for name, (count, us) in found]


Key = TypeVar("Key", bound=Hashable)


def _summed(items: Iterable[tuple[Key, float]]) -> list[tuple[Key, tuple[int, float]]]:
    """How many there are of each key, and the sum, the largest first."""
    sums: dict[Key, tuple[int, float]] = {}
    for key, value in items:
        count, total = sums.get(key, (0, 0.0))
        sums[key] = (count + 1, total + value)
    return sorted(sums.items(), key=lambda item: -item[1][1])
