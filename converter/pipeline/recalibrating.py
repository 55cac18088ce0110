"""One more method of calibration, where the default's artifact misses a gate.

That shows once the artifact was checked. The plan then gets another way to it: limits anew from the
same tallies, and what hangs on them. Of two that miss, the closer stays. Where the user named a
method, or a budget, which has a way of its own, nothing else is tried (:func:`plan.plan`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from converter.check.gate_result import GateResult, numbers
from converter.pipeline.outcome import Outcome
from converter.pipeline.plan import Plan, Step, by_method
from converter.pipeline.results import gates_of
from converter.pipeline.run import Done
from converter.pipeline.steps import CheckedArtifact


@dataclass(frozen=True)
class Attempt:
    """An artifact by one method.

    Attributes:
        lower: The step that gave its model.
        done: What wrote and checked it.
        gates: Judged, but for those on times.
        cosine: Of its outputs; -1 where there is none.
    """

    lower: Step
    done: Mapping[str, Done]
    gates: list[GateResult]
    cosine: float

    @property
    def method(self) -> str:
        """How its ranges were taken from what was measured."""
        return str(self.lower.params["calibration"])

    @property
    def missed(self) -> list[GateResult]:
        """The gates that it missed."""
        return [gate for gate in self.gates if gate.status == "failed"]

    @property
    def rank(self) -> tuple[int, float]:
        """Lower is closer to the source."""
        return len(self.missed), -self.cosine


class Recalibration:
    """Tries one more method for each artifact that may have one; called after each step.

    Args:
        outcome: The run; is told what was tried.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome, self._run = outcome, outcome.run
        self._first: dict[str, Attempt] = {}

    def __call__(self, step: Step) -> Plan | None:
        """The plan from here on, where it is another one."""
        if step.kind != "check" or step.id not in self._run.done:
            return None
        (emit,) = self._run.plan.beside(step, "emit")
        first = self._first.pop(emit.id, None)
        return self._begin(emit, step) if first is None else self._decide(emit, step, first)

    def _begin(self, emit: Step, check: Step) -> Plan | None:
        lower = self._run.plan.step(emit.model)
        if not lower.otherwise:
            return None
        attempt = self._attempt(emit, check)
        if all(gate.value is None for gate in attempt.missed):  # nothing that is closer would pass
            return None
        self._first[emit.id] = attempt
        self._folder(emit).rename(self._aside(emit))
        return self._run.plan.made_of(emit, by_method(lower, lower.otherwise))

    def _decide(self, emit: Step, check: Step, first: Attempt) -> Plan:
        second = self._attempt(emit, check)
        kept, left = first, self._folder(emit)
        if second.rank < first.rank:
            kept, left = second, self._aside(emit)
        shutil.rmtree(left)
        self._outcome.recalibrated[emit.what] = _told(kept, first, second)
        if kept is second:
            return self._run.plan.settled()
        self._aside(emit).rename(self._folder(emit))
        plan = self._run.plan.made_of(emit, first.lower).settled()
        self._run.done.update(first.done)
        return plan

    def _attempt(self, emit: Step, check: Step) -> Attempt:
        done = {step.id: self._run.done[step.id] for step in (emit, check)}
        gates = gates_of(self._outcome, emit, self._run.result(emit.id))
        checked: CheckedArtifact = self._run.result(check.id)
        cosine = checked.accuracy.comparison.cosine
        return Attempt(
            self._run.plan.step(emit.model),
            done,
            [gate for gate in gates if not gate.measured],
            -1.0 if cosine is None else cosine,
        )

    def _folder(self, emit: Step) -> Path:
        return self._outcome.work.folder / emit.target / emit.precision

    def _aside(self, emit: Step) -> Path:
        return self._outcome.work.scratch / f"first-{emit.target}-{emit.precision}"


def _told(kept: Attempt, first: Attempt, second: Attempt) -> str:
    """What both gave, and which one was taken."""
    names = dict.fromkeys(gate.name for item in (first, second) for gate in item.missed)
    both = (
        f"by {item.method}{what}: {', '.join(_values(item, names))}"
        for item, what in ((first, ", the default"), (second, ""))
    )
    return f"calibrated by {kept.method}; {'; '.join(both)}"


def _values(item: Attempt, names: Mapping[str, None]) -> Iterator[str]:
    for gate in item.gates:
        if gate.name in names:
            found, limit = numbers(gate)
            missed = ", missed" * (gate.status == "failed")
            yield f"{gate.name} {found or gate.status} (limit {limit}{missed})"
