"""What a sweep is made of on a cluster: cells, and before them the steps that several share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from converter import plugins
from converter.commands.executor import Task
from converter.pipeline.plan import Step
from converter.pipeline.run import WORKERS


@dataclass(eq=False)
class Share:
    """A cell, or steps that several cells have.

    Attributes:
        task: The cell; of shared steps, the first cell that has them.
        steps: The ids of the shared steps and of all that they need; none for a cell.
        cells: The names of the cells that have it.
        needs: What has to have ended before.
        tries: How often it was begun.
    """

    task: Task
    steps: frozenset[str]
    cells: frozenset[str]
    needs: Sequence[Share] = ()
    tries: int = field(default=0)

    @property
    def _planned(self) -> list[Step]:
        own = self.task.part.plan.steps
        return [step for step in own if not self.steps or step.id in self.steps]

    @property
    def measures(self) -> bool:
        """Whether a step measures time: it takes a whole node."""
        return any(step.kind == "bench" for step in self._planned)

    @property
    def threaded(self) -> bool:
        """Whether a step has threads for every core."""
        return any(step.alone or step.threaded for step in self._planned)

    @property
    def gpu(self) -> bool:
        """Whether an artifact runs on a GPU."""
        targets = {step.target for step in self._planned if step.kind == "emit"}
        others = set(self.task.part.request.providers) - {"cpu"}
        return any(others or plugins.load("emitters", target).gpu for target in targets)

    def cores(self, most: int, least: int) -> int:
        """The cores that it takes.

        Args:
            most: Those of the largest node.
            least: Those of the smallest node.
        """
        if self.measures:
            return most
        return least if self.threaded else min(WORKERS, least)


def shares_of(tasks: Sequence[Task]) -> list[Share]:
    """The cells, after the steps that several of them have, which are done once.

    Steps that the same cells have are done together. What a step gives lies in the store; what
    isn't kept there (the samples) is read anew.
    """
    users: dict[str, list[tuple[Task, Step]]] = {}
    for task in tasks:
        keys: dict[str, str] = {}
        for step in task.part.plan.steps:
            keys[step.id] = step.key([task.group, *(keys[need] for need in step.needs)], {})
            users.setdefault(keys[step.id], []).append((task, step))
    together: dict[frozenset[str], tuple[Task, set[str]]] = {}
    for found in users.values():
        task, step = found[0]
        if step.kept and len(found) > 1:
            cells = frozenset(other.name for other, _ in found)
            together.setdefault(cells, (task, set()))[1].update(_led_to(task, step.id))
    shared: list[Share] = []
    for cells in sorted(together, key=len, reverse=True):
        task, steps = together[cells]
        before = [share for share in shared if share.cells > cells]
        shared.append(Share(task, frozenset(steps), cells, before))
    own = [
        Share(task, frozenset(), frozenset({task.name}),
              [share for share in shared if task.name in share.cells])
        for task in tasks
    ]  # fmt: skip
    return [*shared, *own]


def _led_to(task: Task, id: str) -> set[str]:
    """A step's id, and those of all that it needs."""
    needs = task.part.plan.step(id).needs
    return {id}.union(*(_led_to(task, need) for need in needs))
