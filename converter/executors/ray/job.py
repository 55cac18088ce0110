"""What a worker of Ray's carries out: a cell of a sweep, or steps that several cells share.

Ray carries a :class:`Job`, which is small, and tells how it goes on. Everything else lies in the
store behind the cache: the files that a job reads, what its steps give, the folder that it makes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from converter.commands.convert import Part, converted, part_of, run_steps
from converter.commands.executor import plain_error
from converter.commands.opened import closing
from converter.errors import DependencyError, InternalError, MachineError, PartlyError
from converter.files.digest import code_digest, digest_of, file_digest
from converter.files.temporary import own_folder
from converter.options.request import Request
from converter.pipeline.cache import Cache
from converter.pipeline.plan import Plan, Step
from converter.pipeline.reads import renamed
from converter.pipeline.run import Stopped
from converter.pipeline.work import Work, describe_versions
from converter.runtime import memory
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
"""A method of a listener's, and its arguments; or ``result`` and a :class:`Result`."""


@dataclass(frozen=True)
class Job:
    """What one task of Ray's is to do.

    Attributes:
        name: The cell's; of shared steps, that of the first cell that has them.
        request: Resolved; what it reads is named by :data:`SENT`.
        given: The fields of the request that the user gave.
        steps: The ids of the steps to do; none for all that the cell is.
        files: The key of the entry with what it reads.
        folder, out: Where those files, and the output, are for the user.
        makeup: What must be the same here: see :func:`makeup`.
    """

    name: str
    request: Request
    given: frozenset[str]
    steps: frozenset[str]
    files: str
    folder: str
    out: str
    makeup: Mapping[str, str]


@dataclass(frozen=True)
class Result:
    """What came of a job.

    Attributes:
        error: As :meth:`ModelyardError.as_dict` has it; None where nothing went wrong.
        made: The key of the entry with the output, or with the report of what failed; empty
            where there is none.
        whole: Whether that is the output.
        seconds: From the first step to the last.
        peak: The most bytes that the process and its children had taken.
    """

    error: Mapping[str, Any] | None
    made: str
    whole: bool
    seconds: float
    peak: int


def makeup() -> dict[str, str]:
    """What decides which bytes a step gives: our code, and the versions of all packages."""
    return {"modelyard's code": code_digest()[:12], **describe_versions()}


def carry_out(job: Job) -> Iterator[list[Event]]:
    """Carries a job out; tells meanwhile how it goes on, and at the end what came of it.

    Ray cancels in the main thread, so the steps have one of their own: an interrupt ends them.
    """
    told = _Told()
    made: list[Result] = []
    worker = threading.Thread(target=lambda: made.append(_carried(job, told)), daemon=True)
    worker.start()
    peak = 0
    try:
        while worker.is_alive():
            worker.join(_EVERY)
            with suppress(OSError):  # a child has ended
                peak = max(peak, memory.taken([os.getpid(), *memory.family(os.getpid())]))
            if events := told.taken():
                yield events
        yield [*told.taken(), ("result", replace(made[0], peak=peak))]
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

    def __init__(self) -> None:
        self.over = False
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._texts: dict[str, Event] = {}

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


def _carried(job: Job, told: _Told) -> Result:
    begun = time.monotonic()
    error: Mapping[str, Any] | None = None
    made, whole = "", False
    try:
        _require_same(job.makeup)
        with own_folder(), tempfile.TemporaryDirectory(prefix="modelyard-ray-") as place:
            folder = Path(place).resolve()
            try:
                made, whole = _done(job, folder, told)
            except _Failed as failure:
                made, whole = failure.made, failure.whole
                error = _as_there(failure.error, job, folder)
            except Exception as failure:
                error = _as_there(failure, job, folder)
    except Exception as failure:
        error = plain_error(failure).as_dict()
    except Stopped:
        error = InternalError("cancelled").as_dict()
    return Result(error, made, whole, time.monotonic() - begun, 0)


class _Failed(Exception):
    """A cell failed, and something was made of it all the same."""

    def __init__(self, error: Exception, made: str, whole: bool) -> None:
        self.error, self.made, self.whole = error, made, whole


def _done(job: Job, folder: Path, told: _Told) -> tuple[str, bool]:
    """The key of the entry with the output, and whether there is one."""
    cache = Cache.of(job.request)
    request = renamed(_brought(job, cache, folder), lambda text: _here(text, folder))
    out = folder / "out" / job.name
    part = part_of("", replace(request, out=str(out)), job.given)
    if job.steps:
        _do_shared(job.steps, part, cache, folder, told)
        return "", False
    try:
        converted(part, told)
    except PartlyError as error:
        raise _Failed(error, _kept(cache, out), True) from error
    except Exception as error:
        left = getattr(error, "left", None)
        raise _Failed(error, _kept(cache, left) if left else "", False) from error
    return _kept(cache, out), True


def _do_shared(steps: Collection[str], part: Part, cache: Cache, folder: Path, told: _Told) -> None:
    """Does the steps that several cells have; what they give is in the store then."""
    scratch = folder / "scratch"
    scratch.mkdir()
    work = Work(part.request, part.parser, part.identity, scratch, scratch, cache, part.given)
    wanted = tuple(step for step in part.plan.steps if step.id in steps)
    with closing(work):
        run_steps(work, _Shared(wanted), told)


def _brought(job: Job, cache: Cache, folder: Path) -> Request:
    """Brings the files that a job reads out of the store.

    Raises:
        MachineError: They aren't there.
    """
    entry = cache.find(job.files)
    if entry is None:
        away = cache.behind.away if cache.behind else ""
        raise MachineError(
            f"the store {job.request.cache} doesn't have the files that were put there"
            + (f": {away}" if away else ""),
            hint="It has to be the same store on every node of the Ray cluster.",
            code="store-failed",
        )
    if (entry / FILES).is_dir():
        shutil.copytree(entry / FILES, folder / FILES, copy_function=_linked)
    return job.request


def _linked(source: str, target: str) -> None:
    """A large file isn't copied where it needn't be: frameworks map it."""
    if Path(source).stat().st_size >= _LINKED:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)


def _here(text: str, folder: Path) -> str:
    return str(folder / FILES / text.removeprefix(SENT)) if text.startswith(SENT) else text


def _as_there(error: Exception, job: Job, folder: Path) -> Mapping[str, Any]:
    """An error with the paths that the user knows; a bug with where it is."""
    plain = plain_error(error)
    if isinstance(plain, InternalError):
        plain.details = (*plain.details, *traceback.format_exception(error))

    def there(text: str) -> str:
        text = text.replace(str(folder / "out" / job.name), job.out)
        return text.replace(str(folder / FILES), job.folder.rstrip("/"))

    said = plain.as_dict()
    return {**said, "message": there(plain.message), "hint": there(plain.hint),
            "details": [there(line) for line in plain.details]}  # fmt: skip


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
