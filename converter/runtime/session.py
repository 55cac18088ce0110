"""What runs a model: a source's framework, or an artifact in its runtime; and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np

    from converter.ir.model import TensorSpec

    Arrays = Mapping[str, np.ndarray[Any, Any]]


Progress = Callable[[str], None]
"""Called with what is being done now, in a few words."""


class Session(Protocol):
    """A model that can be run: the source framework's, or an artifact in its runtime."""

    @property
    def inputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]: ...

    @property
    def runtime(self) -> dict[str, Any]:
        """What really runs: ``name``, ``version``, ``providers``, ``threads``...

        ``by_name`` is true where outputs have names and no order.

        Where something else runs in an artifact's place, ``stands_for`` names the file that
        doesn't run, and ``not_run`` says why. Such a session is checked, and never measured.
        """

    def run(self, feeds: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs by name, in order. Feeds are arrays by input name, batch included."""

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """Measures runs of one sample.

        Args:
            feeds: One sample: arrays by input name, batch included, of the inputs' dtypes.
            runs: How often each caller runs it.
            concurrency: How many callers run at once, each in its own thread.

        Returns:
            ``runs * concurrency`` times in nanoseconds, and the wall time of all.
        """

    def close(self) -> None: ...


@runtime_checkable
class Roundable(Protocol):
    """A session that can round in another way."""

    def run_rounded(self, feeds: Arrays, seed: int) -> dict[str, np.ndarray[Any, Any]]:
        """As :meth:`Session.run`, with rounding added by ``seed``."""


@dataclass(frozen=True)
class Excerpt:
    """Some values of a tensor, by which it is known: of ``n`` flat values those at
    ``i * (n - 1) // 4095`` for ``i`` below 4096; all where there are no more than that."""

    shape: tuple[int, ...]
    values: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Part:
    """A part of a source's model as it ran: a module, or a function that a module calls.

    Attributes:
        name: The module's path, as nodes of the graph are called after it: ``encoder.attn``;
            empty for the model itself.
        kind: Its class.
        place: Where it is in the code, ``net.py:4``; empty where that isn't known. Never a path.
        inputs, outputs: Its tensors, by their keys in :attr:`Parts.tensors`; alike ones have one.
        call: Whether it is a function that the module ``name`` calls, at ``place``.
    """

    name: str
    kind: str
    place: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    call: bool = False


@dataclass(frozen=True)
class Parts:
    """What ran, in the order in which it ended, and the tensors."""

    ran: tuple[Part, ...]
    tensors: Mapping[str, Excerpt]


@runtime_checkable
class Locating(Protocol):
    """A session that can say what the parts of its model gave."""

    def parts(self, feeds: Arrays, inside: str = "") -> Parts:
        """What the module ``inside`` gave in each of its runs, and before that what it called: its
        own modules, and functions with the line that they are called in."""


@dataclass(frozen=True)
class Timing:
    """Latencies of single runs, in nanoseconds, and the wall time of all of them together."""

    ns: tuple[int, ...]
    total_ns: int


START = "start"
"""The phase before an artifact is opened: its runtime is loaded, and what it will be fed."""


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
