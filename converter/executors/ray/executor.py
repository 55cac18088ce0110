"""Carries the cells of a sweep out on a Ray cluster (https://docs.ray.io).

A task of Ray's is a few cells of one source, or steps that cells of several such tasks share;
ARCHITECTURE.md says why it is no single step. Ray says where and when it runs, by the cores, memory
and GPUs that it asks for.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray import exceptions

from converter.commands.convert import staging_of
from converter.commands.executor import Ended, Task
from converter.errors import InternalError, MachineError, ModelyardError, UsageError
from converter.executors.ray.cluster import Cluster, connected
from converter.executors.ray.job import Job, Result, Travelling, makeup
from converter.executors.ray.sending import sent
from converter.executors.ray.shares import Share, shares_of
from converter.files.object_store import local_path
from converter.pipeline.cache import Cache, SharedStore
from converter.pipeline.plan import Step
from converter.pipeline.run import Listener
from converter.report.json_ import read_report
from converter.report.model import Report

_RETRIES = 2
"""How often a task is begun again whose process or node died."""

_LOOKS_EVERY, _GRACE = 0.5, 4.0


def _carried(job: bytes) -> Iterator[Any]:
    """What a worker of Ray's runs. It travels by its code, and so finds our packages whatever else
    has their names there."""
    import pickle

    from modelyard import own

    own.claim()
    from converter.executors.ray.job import carry_out

    yield from carry_out(pickle.loads(job))


class Ray:
    """On a cluster.

    Args:
        address: Of its head, ``HOST:PORT``; empty for ``RAY_ADDRESS``, else this machine's.
    """

    def __init__(self, address: str = "") -> None:
        self._address = address

    def at(self, place: str) -> Ray:
        """See :class:`converter.commands.executor.Executor`."""
        return Ray(place)

    def carry_out(
        self, tasks: Sequence[Task], listener: Listener, ended: Callable[[Ended], None]
    ) -> None:
        """See :class:`converter.commands.executor.Executor`."""
        if not tasks:
            return
        tasks = [replace(task, part=replace(task.part, request=_store_named(task)))
                 for task in tasks]  # fmt: skip
        cache = Cache.of(tasks[0].part.request)
        if cache.behind is None:
            raise UsageError(f"--offline and --cache {tasks[0].part.request.cache} contradict "
                             "each other", code="option-conflict")  # fmt: skip
        with connected(self._address) as cluster:
            _Sweep(tasks, cluster, cache, cache.behind, listener, ended).carry_out()


def _store_named(task: Task) -> Any:
    """A task's request with its store by a name that means the same on every node.

    Raises:
        UsageError: It has no store, or what can't travel.
    """
    request = task.part.request
    if not isinstance(request.cache, str):
        raise UsageError(
            "the nodes of a Ray cluster share a store, and no --cache names one",
            hint="Add --cache s3://BUCKET/FOLDER, or --cache FOLDER where every node has that "
            "folder.",
            code="option-missing",
        )
    if request.repository and (folder := local_path(request.repository)) is not None:
        raise UsageError(
            f"--repository {folder} is a folder of this machine, and a Ray cluster's nodes can't "
            "write to it",
            hint="Give a URL, or leave it out and copy the packages.",
            code="option-conflict",
        )
    store = local_path(request.cache)
    return replace(request, cache=str(store.resolve())) if store is not None else request


class _Sweep:
    """The tasks of one sweep on a cluster."""

    def __init__(
        self, tasks: Sequence[Task], cluster: Cluster, cache: Cache, store: SharedStore,
        listener: Listener, ended: Callable[[Ended], None],
    ) -> None:  # fmt: skip
        self._cluster, self._cache, self._store = cluster, cache, store
        self._listener, self._ended = listener, ended
        self._waiting = shares_of(tasks, len(cluster.nodes()))
        self._running: dict[Any, Share] = {}
        self._steps: dict[Share, dict[str, Step]] = {}  # that run now, by their ids
        self._lost: dict[Share, ModelyardError] = {}
        self._makeup = makeup()
        self._remote = ray.remote(max_retries=0, num_returns="streaming")(_carried)

    def carry_out(self) -> None:
        """Until all have ended."""
        try:
            while self._waiting or self._running:
                self._begin()
                if not self._running:
                    continue
                ready, _ = ray.wait([*self._running], timeout=_LOOKS_EVERY, fetch_local=False)
                for stream in ready:
                    self._next(stream)
                self._cluster.require_head()
        except MachineError as error:
            for share in [*self._running.values(), *self._waiting]:
                self._fail(share, error)
            self._running.clear()
        finally:
            self._cancel()

    def _begin(self) -> None:
        """Gives Ray what waits for nothing any more."""
        under_way = {*self._waiting, *self._running.values()}
        for share in [s for s in self._waiting if not under_way.intersection(s.needs)]:
            lost = next((self._lost[need] for need in share.needs if need in self._lost), None)
            try:
                if lost is None:
                    self._submit(share)
                else:
                    self._fail(share, lost)
            except MachineError:
                raise
            except Exception as error:  # the others have their turn
                self._fail(share, error)
            self._waiting.remove(share)

    def _submit(self, share: Share) -> None:
        job = Job(tuple(self._travelling(task) for task in share.tasks), share.steps, self._makeup)
        asked = self._cluster.resources(share, max(cell.estimate for cell in job.cells))
        share.tries += 1
        stream = self._remote.options(name=f"modelyard {share.name}", **asked).remote(
            pickle.dumps(job)
        )
        self._running[stream] = share
        self._steps[share] = {}

    def _travelling(self, task: Task) -> Travelling:
        """A cell whose files are in the store."""
        files, folder, request = sent(task.part, self._store)
        if self._store.away:
            raise MachineError(
                f"the store {request.cache} can't be used: {self._store.away}", code="store-failed"
            )
        out = str(Path(task.fields["out"]).resolve())
        return Travelling(
            task.name, request, task.part.given, files, str(folder), out, task.group, task.kind,
            task.estimate(self._cache),
        )  # fmt: skip

    def _next(self, stream: Any) -> None:
        """Takes what a task has told."""
        share = self._running[stream]
        try:
            events = ray.get(next(stream))
        except StopIteration:
            self._end(stream, InternalError("a task of Ray's ended without a result"))
        except exceptions.OutOfMemoryError:
            if not self._apart(stream):
                self._end(stream, MachineError("the machine ran out of memory",
                                               hint="Use fewer or smaller samples, or nodes with "
                                               "more memory.", code="out-of-memory"))  # fmt: skip
        except (exceptions.WorkerCrashedError, exceptions.NodeDiedError) as error:
            self._died(stream, error)
        except exceptions.RayError as error:
            self._end(stream, InternalError(f"Ray: {str(error).strip().splitlines()[-1]}"))
        else:
            for what, *more in events:
                if what == "result":
                    self._came(stream, *more)
                else:
                    self._tell(share, what, *more)

    def _tell(self, share: Share, what: str, step: Step, *more: Any) -> None:
        step = step if step.part else step.of(share.tasks[0].name)
        if what == "started":
            share.begun.add(step.part)
            self._steps[share][step.id] = step
        elif what == "finished":
            self._steps[share].pop(step.id, None)
        getattr(self._listener, what)(step, *more)

    def _died(self, stream: Any, error: Exception) -> None:
        """Begins a task again whose process died, unless it has died too often."""
        self._cluster.require_head()
        if self._apart(stream):
            return
        share = self._running[stream]
        doing = next((step.title for step in self._steps[share].values()), "starting")
        if share.tries > _RETRIES:
            why = "its node" if isinstance(error, exceptions.NodeDiedError) else "its process"
            self._end(stream, MachineError(
                f"{doing}: {why} died, {share.tries} times",
                hint="The system may have run out of memory, or native code crashed: the logs of "
                "Ray on the node say more.",
                code="process-ended",
            ))  # fmt: skip
            return
        self._close(stream)
        self._waiting.insert(0, share)

    def _apart(self, stream: Any) -> bool:
        """Has the cells begun again each by itself that a task was at when it ended: one of them
        may be why. Whether there were several cells, and it was at any."""
        share = self._running[stream]
        begun = [task for task in share.tasks if task.name in share.begun]
        if share.steps or len(share.tasks) == 1 or not begun:
            return False
        self._close(stream)
        share.tasks = [task for task in share.tasks if task not in begun]
        share.tries = 0
        alone = [Share([task], tries=1) for task in begun]
        self._waiting[:0] = [*alone, share] if share.tasks else alone
        return True

    def _close(self, stream: Any) -> Share:
        share = self._running.pop(stream)
        for step in self._steps.pop(share).values():
            self._listener.finished(step, 0.0, False)
        return share

    def _came(self, stream: Any, name: str, result: Result) -> None:
        """Takes what came of a cell, or of shared steps."""
        share = self._running[stream]
        task = next(task for task in share.tasks if task.name == name)
        if share.steps or share.tasks == [task]:
            self._close(stream)
        if not share.steps:
            share.tasks = [other for other in share.tasks if other is not task]
            known = self._cache.recall(task.kind) or 0
            self._cache.remember(task.kind, max(result.peak, known))
            self._ended(self._made(task, result))

    def _end(self, stream: Any, error: ModelyardError) -> None:
        self._fail(self._close(stream), error)

    def _fail(self, share: Share, error: Exception) -> None:
        """Notes that cells failed; of shared steps, that the cells that have them will."""
        if share.steps and isinstance(error, ModelyardError):
            self._lost[share] = error
        elif not share.steps:
            for task in share.tasks:
                self._ended(Ended(task.name, error=error))

    def _made(self, task: Task, result: Result) -> Ended:
        """Puts what a cell made in its place."""
        error = ModelyardError.told(result.error) if result.error is not None else None
        report: Report | None = None
        folder: Path | None = None
        if result.made:
            try:
                placed = self._placed(task, result)
                report = read_report(placed / "report.json") if result.whole else None
                folder = placed if result.whole else None
                if error is not None and not result.whole:
                    error.left = placed
            except ModelyardError as failure:
                error = failure
        return Ended(task.name, report, folder, error, result.seconds)

    def _placed(self, task: Task, result: Result) -> Path:
        with staging_of([task.part], Path(task.fields["out"]), task.part.request) as staging:
            if not self._store.get(result.made, staging.folder):
                raise MachineError(
                    f"the store {task.part.request.cache} doesn't have what {task.name} made: "
                    f"{self._store.away or 'was it trimmed?'}",
                    code="store-failed",
                )
            if result.whole:
                return staging.commit()
            return staging.commit_failed([item.name for item in staging.folder.iterdir()])

    def _cancel(self) -> None:
        """Has everything end that still runs: by an interrupt, and where that doesn't do, by
        ending its process."""
        left = [*self._running]
        for stream in left:
            with suppress(exceptions.RayError, TypeError, ValueError):
                ray.cancel(stream)
        for stream in left:
            with suppress(exceptions.RayError, StopIteration):
                while ray.wait([stream], timeout=_GRACE / len(left), fetch_local=False)[0]:
                    ray.get(next(stream))
                ray.cancel(stream, force=True)
        self._running.clear()
