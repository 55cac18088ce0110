"""What a sweep is made of on a cluster: cells together, and before them the steps they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from converter import plugins
from converter.commands.executor import Task
from converter.pipeline.plan import Step
from converter.pipeline.run import WORKERS

_MOST = 64
"""Cells of one task: other sweeps have their turn after it."""


@dataclass(eq=False)
class Share:
    """Cells that a task of Ray's carries out side by side, or steps that cells of several have.

    Attributes:
        tasks: The cells that haven't ended; of shared steps, the first cell that has them.
        steps: The ids of the shared steps and of all that they need; none for cells.
        cells: The names of the cells that have it.
        needs: What has to have ended before.
        tries: How often it was begun.
        begun: The names of the cells that a step was begun of.
    """

    tasks: Sequence[Task]
    steps: frozenset[str] = frozenset()
    cells: frozenset[str] = frozenset()
    needs: Sequence[Share] = ()
    tries: int = 0
    begun: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.cells = self.cells or frozenset(task.name for task in self.tasks)

    @property
    def name(self) -> str:
        """What people call it."""
        first, *others = (task.name for task in self.tasks)
        return f"{first} and {len(others)} more" if others else first

    @property
    def _planned(self) -> list[Step]:
        planned = [step for task in self.tasks for step in task.part.plan.steps]
        return [step for step in planned if not self.steps or step.id in self.steps]

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
        others = {name for task in self.tasks for name in task.part.request.providers} - {"cpu"}
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


def shares_of(tasks: Sequence[Task], nodes: int) -> list[Share]:
    """Cells together, after the steps that cells of several shares have, which are done once.

    Steps that the same cells have are done together. What a step gives lies in the store; what
    isn't kept there (the samples) is read anew.

    Args:
        tasks: The cells.
        nodes: How many nodes carry them out.
    """
    own = [Share(some) for some in _together(tasks, nodes)]
    places = {task.name: share for share in own for task in share.tasks}
    users: dict[str, list[tuple[Task, Step]]] = {}
    for task in tasks:
        keys: dict[str, str] = {}
        for step in task.part.plan.steps:
            keys[step.id] = step.key([task.group, *(keys[need] for need in step.needs)], {})
            users.setdefault(keys[step.id], []).append((task, step))
    together: dict[frozenset[str], tuple[Task, set[str]]] = {}
    for found in users.values():
        task, step = found[0]
        cells = frozenset(other.name for other, _ in found)
        if step.kept and len({id(places[cell]) for cell in cells}) > 1:
            together.setdefault(cells, (task, set()))[1].update(_led_to(task, step.id))
    shared: list[Share] = []
    for cells in sorted(together, key=len, reverse=True):
        task, steps = together[cells]
        before = [share for share in shared if share.cells > cells]
        shared.append(Share([task], frozenset(steps), cells, before))
    for share in own:
        share.needs = [other for other in shared if share.cells & other.cells]
    return [*shared, *own]


def _together(tasks: Sequence[Task], nodes: int) -> Iterator[Sequence[Task]]:
    """Cells that ask for the same node, those of one source together: at most so many that of
    several nodes none waits long for the last one to end."""
    most = min(_MOST, -(-len(tasks) // (2 * nodes - 1)))
    alike: dict[tuple[bool, bool], dict[str, list[Task]]] = {}
    for task in tasks:
        alone = Share([task])
        sources = alike.setdefault((alone.measures, alone.gpu), {})
        sources.setdefault(task.group, []).append(task)
    for sources in alike.values():
        made: list[Task] = []
        for found in sources.values():
            size = -(-len(found) // -(-len(found) // most))
            for piece in (found[start : start + size] for start in range(0, len(found), size)):
                if len(made) + len(piece) > most:
                    yield made
                    made = []
                made += piece
        yield made


def _led_to(task: Task, id: str) -> set[str]:
    """A step's id, and those of all that it needs."""
    needs = task.part.plan.step(id).needs
    return {id}.union(*(_led_to(task, need) for need in needs))
