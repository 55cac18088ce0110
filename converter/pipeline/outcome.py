"""A run whose steps are done, as what is made of it sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from converter.check.gate_result import GateResult
from converter.options.request import Request
from converter.pipeline.plan import Plan, Step
from converter.pipeline.run import Run
from converter.pipeline.work import Work, sized
from converter.protocols.emitter import Artifact


@dataclass(frozen=True)
class Outcome:
    """A run whose steps are done; where a budget was missed, not all of them.

    Attributes:
        work: What was asked for.
        run: What the steps gave.
        versions: Of the packages that did it.
        recalibrated: What two methods of calibration gave and which was taken, by the artifact's
            :attr:`Step.what`.
        joined: What the flow's check said of artifacts, by target and precision.
    """

    work: Work
    run: Run
    versions: Mapping[str, str]
    recalibrated: dict[str, str] = field(default_factory=dict)
    joined: dict[tuple[str, str], GateResult] = field(default_factory=dict)

    @property
    def part(self) -> str:
        """The part that it is of; empty where there are no parts."""
        return self.work.part

    @property
    def is_told(self) -> bool:
        """Whether there is a model to tell of: it was read and simplified, its samples too, and
        the part didn't fail as a whole."""
        return self.run.failed is None and all(
            id in self.run.done for id in ("parse", "samples", "simplify")
        )

    @property
    def plan(self) -> Plan:
        """The steps."""
        return self.run.plan

    @property
    def request(self) -> Request:
        """What was asked for, with the sizes that the source suggests."""
        return sized(self.work.request, self.run.result("parse").model)

    def artifacts(self) -> Iterator[tuple[Step, Artifact]]:
        """The step that wrote it and the artifact, in the plan's order, of those that are done
        with: checked and measured, where that was planned."""
        for step in self.done("emit"):
            if all(other.id in self.run.done for other in self.plan.beside(step, "check", "bench")):
                yield step, self.run.result(step.id)

    def done(self, *kinds: str) -> Iterator[Step]:
        """The steps of these kinds that are done, in the plan's order."""
        return (step for step in self.plan.steps if step.kind in kinds and step.id in self.run.done)

    def beside(self, step: Step, kind: str) -> Any:
        """The result of the step of that kind for the same artifact, or None."""
        return next((self.maybe(other.id) for other in self.plan.beside(step, kind)), None)

    def maybe(self, id: str) -> Any:
        """The result of a step, or None where it wasn't planned, or not reached."""
        return self.run.result(id) if id in self.run.done else None
