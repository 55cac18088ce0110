"""A run whose steps are done, as what is made of it sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from converter.plan import Plan, Step
from converter.plugins import Artifact
from converter.run import Run
from converter.work import Work


@dataclass(frozen=True)
class Outcome:
    """A run whose steps are done; where a budget was missed, not all of them."""

    work: Work
    plan: Plan
    run: Run
    versions: Mapping[str, str]

    def artifacts(self) -> Iterator[tuple[str, Artifact]]:
        """``target:precision`` and the artifact, in the plan's order, of those that are done with:
        checked and measured, where that was planned."""
        for step in self.plan.steps:
            if step.kind == "emit":
                what = step.id.split(":", 1)[1]
                ids = [step.id, *filter(self.plan.has, (f"check:{what}", f"bench:{what}"))]
                if all(id in self.run.done for id in ids):
                    yield what, self.run.result(step.id)

    def done(self, *kinds: str) -> Iterator[Step]:
        """The steps of these kinds that are done, in the plan's order."""
        return (step for step in self.plan.steps if step.kind in kinds and step.id in self.run.done)

    def maybe(self, id: str) -> Any:
        """The result of a step, or None where it wasn't planned, or not reached."""
        return self.run.result(id) if id in self.run.done else None
