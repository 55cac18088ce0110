"""Carries out the cells of a sweep: here, side by side, as cores and memory allow.

An executor is a plug-in of the group ``modelyard.executors``. One elsewhere (on a cluster) gets the
same tasks: their requests are plain values, and what a task gives is its output folder. Tasks of
one group share their first steps, and belong together.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from converter import plugins
from converter.commands.convert import Part, outcome_of, prepare, staging_of, work_of
from converter.commands.opened import closing
from converter.errors import (
    MachineError,
    ModelyardError,
    PartlyError,
    UsageError,
    from_os_error,
)
from converter.files.digest import digest_of
from converter.machine import describe_machine
from converter.options.parts import Whole
from converter.pipeline.cache import Cache
from converter.pipeline.outcome import Outcome
from converter.pipeline.run import WORKERS, Listener, Run, carry_out, unforeseen
from converter.pipeline.staging import SCRATCH, Staging
from converter.report.model import Report
from converter.runtime import memory
from converter.runtime.worker import warm_workers

_OWN = ("emit", "check", "bench", "pack", "package")
"""Kinds of steps whose results no other cell takes over."""

_MOST = 2
"""Cells that are open at once, for each step that may run."""

_OF_WEIGHTS, _AT_LEAST = 6, 300 << 20
"""Bytes that a conversion takes, before one was seen: times its source's, and at least."""

_LOOKS_EVERY = 0.5


@dataclass(frozen=True)
class Task:
    """A cell that is to be carried out.

    Attributes:
        name: The cell's.
        fields: Of a request, its ``source`` and ``out`` among them.
        part: The same, planned.
    """

    name: str
    fields: Mapping[str, Any]
    part: Part

    @property
    def group(self) -> str:
        """What tasks have in common that read one source in one way."""
        return digest_of([self.part.request.source, self.part.plan.step("parse").params])

    @property
    def kind(self) -> str:
        """What tasks have in common that take as much memory."""
        request = self.part.request
        return digest_of(["memory", self.group, request.to, request.precision, request.serve])

    def estimate(self, cache: Cache) -> int:
        """Bytes that it takes: as an earlier run had it, else by the size of its source."""
        known = cache.recall(self.kind)
        if isinstance(known, int):
            return known
        sizes = [path.stat().st_size for path in self.part.identity.files.values()
                 if path.is_file()]  # fmt: skip
        return max(_AT_LEAST, _OF_WEIGHTS * sum(sizes))


@dataclass(frozen=True)
class Ended:
    """What came of a task.

    Attributes:
        name: The task's.
        report: Of what was made, or of what missed a gate; None where there is none.
        folder: Where that lies.
        error: What went wrong; None where nothing did.
        seconds: From its first step to its last, with others beside it.
    """

    name: str
    report: Report | None = None
    folder: Path | None = None
    error: Exception | None = None
    seconds: float = 0.0


class Executor(Protocol):
    """Where a sweep's cells are carried out."""

    def at(self, place: str) -> Executor:
        """Itself at a place, as ``--executor NAME:PLACE`` has it; an empty one is its usual one.

        Raises:
            UsageError: It has no such places.
        """

    def carry_out(
        self, tasks: Sequence[Task], listener: Listener, ended: Callable[[Ended], None]
    ) -> None:
        """Carries out all tasks; a task that fails doesn't raise.

        Args:
            tasks: The cells; those of one group belong together.
            listener: Called as steps go on, from several threads.
            ended: Called with each task once it has ended, failed ones too.

        Raises:
            ModelyardError: Nothing can be carried out there; then none of them has begun.
        """


def executor_named(text: str) -> Executor:
    """The executor of ``NAME`` or ``NAME:PLACE``.

    Raises:
        UsageError: There is none of that name, or it has no such place.
        DependencyError: It needs what isn't installed.
    """
    name, _, place = text.partition(":")
    found: Executor = plugins.load("executors", name)
    return found.at(place)


def plain_error(error: Exception) -> ModelyardError:
    """The user's error of what was raised."""
    if isinstance(error, ModelyardError):
        return error
    if isinstance(error, MemoryError):
        return MachineError("the machine ran out of memory", code="out-of-memory")
    return from_os_error(error, "working") if isinstance(error, OSError) else unforeseen(error)


class Local:
    """In this process: steps that several cells have are done once, the others side by side."""

    def at(self, place: str) -> Local:
        """See :class:`Executor`."""
        if place:
            raise UsageError(
                f"--executor local:{place}: local is this machine, and no other",
                code="option-value",
            )
        return self

    def carry_out(
        self, tasks: Sequence[Task], listener: Listener, ended: Callable[[Ended], None]
    ) -> None:
        """See :class:`Executor`."""
        if not tasks:
            return
        cache = Cache.of(tasks[0].part.request)  # an option of the whole sweep
        workers = max(WORKERS, int(describe_machine().usable) // 2)
        groups = list(dict.fromkeys(task.group for task in tasks))
        together = sorted(tasks, key=lambda task: groups.index(task.group))
        with warm_workers(), _Cells(together, cache, listener, ended, workers) as cells:
            carry_out([], cells, workers)


@dataclass
class _Open:
    """A cell that is at work."""

    task: Task
    staging: Staging
    stack: ExitStack
    estimate: int
    begun: float = field(default_factory=time.monotonic)
    peak: int = 0


class _Cells:
    """The cells of a sweep, each a run of its own (:class:`converter.pipeline.run.Waiting`)."""

    def __init__(
        self, tasks: Sequence[Task], cache: Cache, listener: Listener,
        ended: Callable[[Ended], None], workers: int,
    ) -> None:  # fmt: skip
        self._left = deque(tasks)
        self._cache, self._listener, self._ended = cache, listener, ended
        self._most = _MOST * workers
        self._open: dict[str, _Open] = {}
        self._groups: dict[int, str] = {}  # of runs, by their ids: a run is let go of
        self._scratch: dict[str, Path] = {}
        self._stack = ExitStack()
        self._over = threading.Event()
        self._before = _taken()

    def __enter__(self) -> _Cells:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        with ExitStack() as stack:  # whatever ended it: no cell stays half-made
            stack.push(self._stack)
            for item in self._open.values():
                stack.push(item.stack)

    def take(self) -> Run | None:
        """The next cell's run, where there is room; one that can't begin has ended."""
        while self._left:
            task = self._left[0]
            estimate = task.estimate(self._cache)
            if self._open and (len(self._open) >= self._most or not self._has_room(estimate)):
                return None
            self._left.popleft()
            try:
                return self._begin(task, estimate)
            except Exception as error:
                self._ended(Ended(task.name, error=error))
        return None

    def keeps(self, run: Run) -> bool:
        """Whether another cell of its group is still to come, or at work."""
        return self._groups[id(run)] in self._going_on()

    def _going_on(self) -> set[str]:
        return {task.group for task in (*self._left, *(item.task for item in self._open.values()))}

    def _has_room(self, estimate: int) -> bool:
        """Whether it fits beside what the others have taken and will take."""
        here = memory.Memory.here()
        if here is None:
            return True
        taken = _taken()
        promised = sum(item.estimate for item in self._open.values()) - (taken - self._before)
        return estimate <= here.room(taken) - max(0, promised)

    def _begin(self, task: Task, estimate: int) -> Run:
        part, new = task.part, task.group not in self._scratch
        with ExitStack() as stack:
            staging = stack.enter_context(
                staging_of([part], Path(task.fields["out"]), part.request)
            )
            (staging.folder / SCRATCH).mkdir()
            scratch = self._scratch_of(task.group) / task.name
            work = work_of(part, staging, self._cache, None, scratch)
            stack.enter_context(closing(work))
            run, versions = prepare(work, part.plan, self._listener, early=new, apart=task.name)
            outcome = outcome_of(work, run, versions)
            self._open[task.name] = _Open(task, staging, stack.pop_all(), estimate)
        self._groups[id(run)] = task.group
        run.end = partial(self._finish, task, outcome)
        return run

    def _scratch_of(self, group: str) -> Path:
        """Files that a group's cells share lie there until the last of them has ended."""
        if group not in self._scratch:
            made = tempfile.TemporaryDirectory(prefix="modelyard-sweep-")
            self._scratch[group] = Path(self._stack.enter_context(made))
        return self._scratch[group]

    def _finish(self, task: Task, outcome: Outcome) -> None:
        """Puts a cell's output in its place, or says why there is none."""
        from converter.pipeline.results import write_outcome

        item = self._open[task.name]
        report: Report | None = None
        error: Exception | None = outcome.run.failed
        with item.stack:
            outcome.work.opened.close()
            if error is None:
                try:
                    whole = Whole(task.part.model, task.part.request)
                    report = write_outcome([outcome], item.staging, whole)
                except Exception as failure:  # even a bug of ours: the others have their turn
                    error = failure
        del self._open[task.name]
        known = self._cache.recall(task.kind) or _AT_LEAST  # of a run that did more of it itself
        self._cache.remember(task.kind, max(item.peak, known))
        for step in [*outcome.run.done.values()]:
            if step.step.kind in _OWN:
                del outcome.run.done[step.step.id]
        if task.group not in self._going_on():
            for made in self._scratch[task.group].iterdir():
                shutil.rmtree(made)
        folder = item.staging.out if report is not None else None
        if isinstance(error, PartlyError):
            report, folder = error.report, item.staging.out
        self._ended(Ended(task.name, report, folder, error, time.monotonic() - item.begun))

    def _watch(self) -> None:
        """Notes the most memory that each cell takes, an equal share of what all take."""
        while not self._over.wait(_LOOKS_EVERY):
            with suppress(OSError, RuntimeError):  # a process has ended, a cell has begun
                share = (_taken() - self._before) // max(1, len(self._open))
                for item in self._open.values():
                    item.peak = max(item.peak, share)


def _taken() -> int:
    own = os.getpid()
    return memory.taken([own, *memory.family(own)])
