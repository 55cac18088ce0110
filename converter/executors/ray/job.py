"""What a worker of Ray's carries out: cells of a sweep, or steps that cells of several jobs share.

Ray carries a :class:`Job`, which is small, and tells how it goes on. Everything else lies in the
store behind the cache: the files that a cell reads, what its steps give, the folder that it makes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from converter.commands.convert import Part, part_of, run_steps
from converter.commands.executor import Ended, Local, Task, plain_error
from converter.commands.opened import closing
from converter.errors import DependencyError, InternalError, MachineError, ModelyardError
from converter.files.digest import code_digest, digest_of, file_digest
from converter.files.temporary import own_folder
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan, Step
from converter.pipeline.reads import renamed
from converter.pipeline.run import Stopped
from converter.pipeline.work import Work, describe_versions
from converter.runtime.child import end_children

SENT = "modelyard-sent:"
"""What the name of a file begins with that lies in the store: its path in :data:`FILES`."""

FILES = "files"
"""The folder of an entry with the files that a job reads."""

_EVERY = 0.2
_GRACE = 3.0
_LINKED = 1 << 20
"""Bytes from which a file isn't copied out of the cache's folder, but linked."""

Event = tuple[Any, ...]
"""A method of a listener's, and its arguments; or ``result``, a cell and a :class:`Result`."""


@dataclass(frozen=True)
class Travelling:
    """A cell on its way to a node.

    Attributes:
        name: The cell's.
        request: Resolved; what it reads is named by :data:`SENT`.
        given: The fields of the request that the user gave.
        files: The key of the entry with what it reads.
        folder, out: Where those files, and the output, are for the user.
        group, kind: As the :class:`Task` has them for the user.
        estimate: Bytes that it is believed to take.
    """

    name: str
    request: Request
    given: frozenset[str]
    files: str
    folder: str
    out: str
    group: str
    kind: str
    estimate: int


@dataclass(frozen=True)
class Job:
    """What one task of Ray's is to do.

    Attributes:
        cells: What is carried out side by side; of shared steps, the first cell that has them.
        steps: The ids of the steps to do; none for all that the cells are.
        makeup: What must be the same here: see :func:`makeup`.
    """

    cells: tuple[Travelling, ...]
    steps: frozenset[str]
    makeup: Mapping[str, str]


@dataclass(frozen=True)
class Result:
    """What came of a cell.

    Attributes:
        error: As :meth:`ModelyardError.as_dict` has it; None where nothing went wrong.
        made: The key of the entry with the output, or with the report of what failed; empty
            where there is none.
        whole: Whether that is the output.
        seconds: From the first step to the last.
        peak: The most bytes that it takes, as far as is known; 0 where nothing is.
    """

    error: Mapping[str, Any] | None
    made: str = ""
    whole: bool = False
    seconds: float = 0.0
    peak: int = 0


def makeup() -> dict[str, str]:
    """What decides which bytes a step gives: our code, and the versions of all packages."""
    return {"modelyard's code": code_digest()[:12], **describe_versions()}


def carry_out(job: Job) -> Iterator[list[Event]]:
    """Carries a job out; tells meanwhile how it goes on, and what came of each cell.

    Ray cancels in the main thread, so the steps have one of their own: an interrupt ends them.
    """
    told = _Told(cell.name for cell in job.cells)
    worker = threading.Thread(target=_carry_out, args=(job, told), daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(_EVERY)
            if events := told.taken():
                yield events
        yield told.taken()
    finally:
        told.over = True
        if worker.is_alive():
            end_children()
            worker.join(_GRACE)


class _Told:
    """Keeps what a listener is told until it is taken; a :class:`converter.pipeline.run.Listener`.

    Attributes:
        over: Whether the steps are to end.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.over = False
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._texts: dict[str, Event] = {}
        self._left = dict.fromkeys(names)

    def planned(self, plan: Plan) -> None:
        """Nothing: cells are counted, not steps."""

    def started(self, step: Step) -> None:
        self._put("started", step)

    def progress(self, step: Step, text: str) -> None:
        if self.over:
            raise Stopped
        with self._lock:
            self._texts[step.id] = ("progress", _short(step), text)

    def finished(self, step: Step, seconds: float, cached: bool) -> None:
        self._put("finished", step, seconds, cached)

    def _put(self, what: str, step: Step, *more: Any) -> None:
        if self.over:
            raise Stopped
        with self._lock:
            self._texts.pop(step.id, None)
            self._events.append((what, _short(step), *more))

    def result(self, name: str, result: Result) -> None:
        """What came of a cell."""
        with self._lock:
            self._left.pop(name)
            self._events.append(("result", name, result))

    def rest(self, error: ModelyardError) -> None:
        """What came of all cells that nothing was told of."""
        for name in [*self._left]:
            self.result(name, Result(error.as_dict()))

    def taken(self) -> list[Event]:
        """What there was to tell since it was last taken; of texts, each step's last."""
        with self._lock:
            events = [*self._events, *self._texts.values()]
            self._events.clear()
            self._texts.clear()
        return events


def _short(step: Step) -> Step:
    return replace(step, needs=(), params={})


class _Shared(Plan):
    """Steps that are all wanted, though no artifact is among them."""

    def wanted(self, left: Collection[str]) -> set[str]:
        """All but those of ``left`` and what needs them."""
        gone = set(left)
        for step in self.steps:
            if gone.intersection(step.needs):
                gone.add(step.id)
        return {step.id for step in self.steps} - gone


@dataclass(frozen=True)
class _Cell(Task):
    """A cell on a node, where its files have other names than where it comes from."""

    sent: Travelling

    @property
    def group(self) -> str:
        return self.sent.group

    @property
    def kind(self) -> str:
        return self.sent.kind

    def estimate(self, cache: Cache) -> int:
        return self.sent.estimate


def _carry_out(job: Job, told: _Told) -> None:
    try:
        _require_same(job.makeup)
        with own_folder(), tempfile.TemporaryDirectory(prefix="modelyard-ray-") as place:
            _Here(job, Path(place).resolve(), told).carry_out()
    except Exception as failure:
        told.rest(plain_error(failure))
    except Stopped:
        told.rest(InternalError("cancelled"))


class _Here:
    """A job on this node, in a folder of its own."""

    def __init__(self, job: Job, folder: Path, told: _Told) -> None:
        self._job, self._folder, self._told = job, folder, told
        self._cells = {cell.name: cell for cell in job.cells}
        self._cache = Cache.of(job.cells[0].request)  # an option of the whole sweep

    def carry_out(self) -> None:
        """Tells what comes of every cell."""
        tasks = []
        for cell in self._job.cells:
            try:
                tasks.append(self._task(cell))
            except Exception as error:
                self._ended(Ended(cell.name, error=error))
        if not self._job.steps:
            self._do_cells(tasks)
            return
        for task in tasks:
            _do_shared(self._job.steps, task.part, self._cache, self._folder, self._told)
            self._told.result(task.name, Result(None))

    def _do_cells(self, tasks: Sequence[Task]) -> None:
        kept: list[Future[None]] = []
        with ThreadPoolExecutor(1) as keeper:  # the next steps don't wait for the store
            Local().carry_out(
                tasks, self._told, lambda item: kept.append(keeper.submit(self._ended, item))
            )
        for each in kept:
            each.result()

    def _task(self, cell: Travelling) -> _Cell:
        """A cell whose files are here."""
        place = self._place(cell)
        if not place.exists():
            _bring(cell, self._cache, place)
        out = str(self._folder / "out" / cell.name)
        request = renamed(cell.request, lambda text: _here(text, place))
        return _Cell(cell.name, {"out": out}, part_of("", replace(request, out=out), cell.given),
                     cell)  # fmt: skip

    def _place(self, cell: Travelling) -> Path:
        return self._folder / cell.files

    def _ended(self, item: Ended) -> None:
        """Puts what a cell made into the store, and tells of it."""
        cell, made, error = self._cells[item.name], "", item.error
        folder = item.folder or getattr(error, "left", None)
        try:
            made = _kept(self._cache, folder) if folder is not None else ""
        except Exception as failure:
            error = failure
        said = self._as_there(error, cell) if error is not None else None
        whole = bool(made and item.folder)
        peak = self._cache.recall(cell.kind) or 0
        self._told.result(cell.name, Result(said, made, whole, item.seconds, peak))

    def _as_there(self, error: Exception, cell: Travelling) -> Mapping[str, Any]:
        """An error with the paths that the user knows; a bug with where it is."""
        if isinstance(error, InternalError) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        plain = plain_error(error)
        if isinstance(plain, InternalError):
            plain.details = (*plain.details, *traceback.format_exception(error))

        def there(text: str) -> str:
            text = text.replace(str(self._folder / "out" / cell.name), cell.out)
            return text.replace(str(self._place(cell)), cell.folder.rstrip("/"))

        said = plain.as_dict()
        return {**said, "message": there(plain.message), "hint": there(plain.hint),
                "details": [there(line) for line in plain.details]}  # fmt: skip


def _do_shared(steps: Collection[str], part: Part, cache: Cache, folder: Path, told: _Told) -> None:
    """Does the steps that several cells have; what they give is in the store then."""
    scratch = folder / "scratch"
    scratch.mkdir()
    work = Work(part.request, part.parser, part.identity, scratch, scratch, cache, part.given)
    wanted = tuple(step for step in part.plan.steps if step.id in steps)
    with closing(work):
        run_steps(work, _Shared(wanted), told)


def _bring(cell: Travelling, cache: Cache, place: Path) -> None:
    """Brings the files that a cell reads out of the store.

    Raises:
        MachineError: They aren't there.
    """
    entry = cache.find(cell.files)
    if entry is None:
        away = cache.behind.away if cache.behind else ""
        raise MachineError(
            f"the store {cell.request.cache} doesn't have the files that were put there"
            + (f": {away}" if away else ""),
            hint="It has to be the same store on every node of the Ray cluster.",
            code="store-failed",
        )
    if (entry / FILES).is_dir():
        shutil.copytree(entry / FILES, place, copy_function=_linked)


def _linked(source: str, target: str) -> None:
    """A large file isn't copied where it needn't be: frameworks map it."""
    if Path(source).stat().st_size >= _LINKED:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)


def _here(text: str, place: Path) -> str:
    return str(place / text.removeprefix(SENT)) if text.startswith(SENT) else text


def _kept(cache: Cache, folder: Path) -> str:
    """The key under which a folder is in the store now."""
    key = digest_of(["made", file_digest(folder)])
    store = cache.behind
    if store is None:
        raise InternalError("a job has no store")
    store.put(key, folder)
    if store.away:
        raise MachineError(
            f"the output couldn't be put into the store: {store.away}", code="store-failed"
        )
    return key


def _require_same(wanted: Mapping[str, str]) -> None:
    """Refuses a node that would give other bytes.

    Raises:
        DependencyError: With what is otherwise here.
    """
    here = makeup()
    other = [
        f"{name}: {here.get(name, 'none')} on the node, {wanted.get(name, 'none')} here"
        for name in sorted({*here, *wanted})
        if here.get(name) != wanted.get(name)
    ]
    if other:
        raise DependencyError(
            "a node of the Ray cluster has other versions than this machine",
            details=other,
            hint="Install the same versions on every node.",
            code="cluster",
        )
