"""Which settings of a package are tried, and which of two is better: what ``tune`` decides.

Optuna's tree-structured Parzen estimator (Bergstra et al., "Algorithms for Hyper-Parameter
Optimization", NIPS 2011) proposes settings one by one; nothing is measured here.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from converter.protocols.server import Knob, Value

if TYPE_CHECKING:
    from converter.commands.load import LoadPoint

Values = Mapping[str, Value]
"""Of each knob, by its name."""

LEAST = 1.02
"""How much better the median of the rounds at the end has to be."""

_RANDOM = 6
"""Trials of random settings, before the estimator has enough to go by."""

_REPEATS = 20
"""Proposals of what was measured already, after which an untried one is drawn."""

_MOST = 20_000
"""Settings that are looked through for untried ones."""


@dataclass(frozen=True)
class Trial:
    """A package at some settings, under load.

    Attributes:
        package: The package's name.
        values: Its settings.
        points: What was measured, by callers.
        failed: Why it can't win: it didn't start, or answered wrong.
    """

    package: str
    values: Values
    points: Sequence[LoadPoint] = ()
    failed: str = ""


@dataclass(frozen=True)
class Goal:
    """What is looked for.

    Attributes:
        name: As ``--for`` has it.
        what, unit: In words: ``throughput``, ``samples/s``.
        more: Whether more of it is better.
        callers: At once, that are measured unless told.
        any_load: Whether the best of several loads counts; otherwise the worst.
        of: The figure of a point; None where it isn't known.
    """

    name: str
    what: str
    unit: str
    more: bool
    callers: Sequence[int]
    any_load: bool
    of: Callable[[LoadPoint], float | None]

    def point(self, trial: Trial, limit: float | None) -> LoadPoint | None:
        """The point of a trial that counts; None where it failed, or doesn't keep to the limit."""
        kept = [p for p in trial.points if is_clean(p) and _is_within(p, limit)]
        kept = [point for point in kept if self.of(point) is not None]
        if trial.failed or not kept or (not self.any_load and len(kept) < len(trial.points)):
            return None
        best_is_last = self.more == self.any_load
        return (max if best_is_last else min)(kept, key=self._known)

    def value(self, trial: Trial, limit: float | None) -> float | None:
        """Its figure."""
        point = self.point(trial, limit)
        return None if point is None else self.of(point)

    def _known(self, point: LoadPoint) -> float:
        return self.of(point) or 0.0

    def loss(self, trial: Trial, limit: float | None) -> float | None:
        """What the estimator makes small: whatever keeps to the limit is below 0, whatever doesn't
        is above by how far; None where it failed."""
        value = self.value(trial, limit)
        if value is not None:
            return -value if self.more else -1 / max(value, 1e-9)
        slow = [latency_of(point) for point in trial.points if is_clean(point)]
        late = [time for time in slow if time is not None]
        if trial.failed or not late:
            return None
        return (min if self.any_load else max)(late) / (limit or 1.0)


def is_clean(point: LoadPoint) -> bool:
    """Whether every request was answered, and right."""
    return point.n > 0 and not point.errors + point.wrong


def latency_of(point: LoadPoint) -> float | None:
    """Its p95 in milliseconds; of too few requests for that, the longest."""
    return point.max_ms if point.p95_ms is None else point.p95_ms


def _is_within(point: LoadPoint, limit: float | None) -> bool:
    time = latency_of(point)
    return time is not None and (limit is None or time <= limit)


def _megabytes(point: LoadPoint) -> float | None:
    return None if point.memory is None else point.memory / 1e6


GOALS = {
    goal.name: goal
    for goal in (
        Goal("throughput", "throughput", "samples/s", True, (1, 2, 4, 8), True,
             lambda point: point.throughput),
        Goal("latency", "p95 latency", "ms", False, (1,), False, latency_of),
        Goal("memory", "resident memory", "MB", False, (1,), False, _megabytes),
    )
}  # fmt: skip


class Search:
    """Proposes settings that weren't measured yet.

    Args:
        knobs: What can be turned; at least one.
        seed: Of the estimator.
        same: What two settings have in common that make one package.
    """

    def __init__(
        self, knobs: Sequence[Knob], seed: int,
        same: Callable[[Values], Hashable] = lambda values: tuple(sorted(values.items())),
    ) -> None:  # fmt: skip
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=_RANDOM)
        self._study = optuna.create_study(sampler=sampler)
        self._failed = optuna.trial.TrialState.FAIL
        self._knobs, self._same = knobs, same
        self._known: dict[Hashable, float | None] = {}
        self._dice = random.Random(seed)
        self._asked: Any = None

    def start(self, values: Values, loss: float | None) -> None:
        """Tells of settings that nobody asked it for."""
        self._propose(values)
        self.tell(values, loss)

    def ask(self) -> Values | None:
        """Settings to measure; None where all were. :meth:`tell` has to come next."""
        for _ in range(_REPEATS):
            self._asked = self._study.ask()
            values = self._values()
            if self._same(values) not in self._known:
                return values
            self._told(self._known[self._same(values)])
        rest = [values for values in self._all() if self._same(values) not in self._known]
        if not rest:
            return None
        chosen = self._dice.choice(rest)
        self._propose(chosen)
        return chosen

    def tell(self, values: Values, loss: float | None) -> None:
        """What came of the last settings; None where they failed."""
        self._known[self._same(values)] = loss
        self._told(loss)

    def _told(self, loss: float | None) -> None:
        state = self._failed if loss is None else None
        self._study.tell(self._asked, loss, state=state)

    def _propose(self, values: Values) -> None:
        at = {k.name: list(k.values).index(values[k.name]) for k in self._knobs if _in_order(k)}
        self._study.enqueue_trial({**values, **at})
        self._asked = self._study.ask()
        self._values()

    def _values(self) -> Values:
        """What the estimator says of each knob."""
        return {knob.name: self._value(knob) for knob in self._knobs}

    def _value(self, knob: Knob) -> Value:
        if _in_order(knob):
            number: int = self._asked.suggest_int(knob.name, 0, len(knob.values) - 1)
            return knob.values[number]
        found: Value = self._asked.suggest_categorical(knob.name, list(knob.values))
        return found

    def _all(self) -> Iterator[Values]:
        names = [knob.name for knob in self._knobs]
        every = product(*(knob.values for knob in self._knobs))
        for values in islice(every, _MOST):
            yield dict(zip(names, values, strict=True))


def _in_order(knob: Knob) -> bool:
    return all(isinstance(value, int) for value in knob.values)


def search(
    search: Search,
    measure: Callable[[Values], Trial],
    loss: Callable[[Trial], float | None],
    more: Callable[[], bool],
) -> list[Trial]:
    """Measures proposals one after the other.

    Args:
        search: Proposes settings, and learns from what they came to.
        measure: Serves and measures a proposal.
        loss: What a trial came to: lower is better; None where it failed.
        more: Asked before each proposal: whether time is left.

    Returns:
        The trials, in order.
    """
    made = list[Trial]()
    while more() and (values := search.ask()) is not None:
        made.append(measure(values))
        search.tell(values, loss(made[-1]))
    return made


def best(trials: Sequence[Trial], goal: Goal, limit: float | None) -> Trial | None:
    """The trial whose figure is best.

    Args:
        trials: Of several alike, the earliest is taken.
        goal: What a figure is, and whether more of it is better.
        limit: Milliseconds that p95 has to stay below; None for no limit.

    Returns:
        The trial; None where none keeps to the limit.
    """
    known = [(value, -number, trial) for number, trial in enumerate(trials)
             if (value := goal.value(trial, limit)) is not None]  # fmt: skip
    if not known:
        return None
    sign = 1 if goal.more else -1
    return max(known, key=lambda item: (sign * item[0], item[1]))[2]


def compare(
    goal: Goal, before: Sequence[float | None], after: Sequence[float | None]
) -> tuple[bool, str]:
    """Whether settings are better than the package as it is, and in words why.

    They are where their worst round beats its best one, and the medians differ by :data:`LEAST`.
    Of three rounds each, noise alone does that once in twenty times.

    Args:
        goal: What a figure is, its unit, and whether more of it is better.
        before: The package's figure in each round; None where the round had errors, or didn't keep
            to the limit.
        after: The trial's, in the same rounds.
    """
    later = [value for value in after if value is not None]
    if len(later) < len(after) or not later:
        return False, (
            "when measured beside the unchanged package, it doesn't keep to the limit "
            "in every round"
        )
    earlier = [value for value in before if value is not None]
    if not earlier:
        return True, "the unchanged package keeps to the limit in no round"
    shown = f"{_shown(earlier)} before, {_shown(later)} now ({goal.unit}, {len(later)} rounds)"
    worst, rival = (min(later), max(earlier)) if goal.more else (-max(later), -min(earlier))
    ratio = statistics.median(later) / statistics.median(earlier)
    if worst <= rival or (ratio if goal.more else 1 / ratio) < LEAST:
        return False, f"no better than noise: {shown}"
    return True, shown


def _shown(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
