"""Runs cases in child processes: one that dies, or doesn't end, costs one case."""

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from converter.errors import DependencyError, MachineError
from converter.runtime.child import Child, ChildError, worker_env
from tests.conformance.cases import Case, Store
from tests.conformance.outcome import Outcome
from tests.conformance.worker import MARK

ROOT = Path(__file__).resolve().parent.parent.parent
JOBS = 2
"""Children at once."""

LIMIT_SECONDS = 60.0
"""Longest time for one case."""


def run_cases(store: Store, cases: Sequence[Case], target: str, *, limit: float = LIMIT_SECONDS,
              seen: Callable[[Outcome], None] = lambda outcome: None) -> list[Outcome]:  # fmt: skip
    """What becomes of each case, in the order of ``cases``.

    Args:
        store, cases, target: What to run, and through what.
        limit: Seconds for one case; a child that takes longer is ended.
        seen: Called with each outcome as it comes.

    Raises:
        DependencyError: The target can't work here at all.
    """
    workers = [_Worker(store, target, limit) for _ in range(JOBS)]
    free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def run(case: Case) -> Outcome:
        worker = free.get()
        try:
            outcome = worker.run(case)
        finally:
            free.put(worker)
        seen(outcome)
        return outcome

    pool = ThreadPoolExecutor(JOBS)
    try:
        return list(pool.map(run, cases))
    finally:  # after an error, or an interrupt, they end after the cases they are at
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()


class _Worker:
    """One child at a time, started when there is something to do."""

    def __init__(self, store: Store, target: str, limit: float) -> None:
        self._argv = [sys.executable, "-m", "tests.conformance.worker", str(store.path), target]
        self._limit = limit
        self._child: Child | None = None

    def run(self, case: Case) -> Outcome:
        """The case's outcome; what a dead child's is, too.

        Raises:
            DependencyError: The target can't work here at all.
        """
        try:
            self._child = self._child or self._start()
            return self._call(self._child, case)
        except ChildError as error:
            raise DependencyError(f"{case.name}: {error.kind}: {error.message}") from error

    def _start(self) -> Child:
        """A child that has imported what it needs: that doesn't count as time of a case."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        child = Child(self._argv, what="the process", env={**worker_env(), "PYTHONPATH": path})
        try:
            child.call("start")
        except BaseException:  # an interrupt must not leave the child either; all of it goes on
            child.close()
            raise
        return child

    def _call(self, child: Child, case: Case) -> Outcome:
        late = threading.Event()
        timer = threading.Timer(self._limit, _end, (child.pid, late))
        timer.start()
        try:
            return Outcome(**child.call("run", case=case.name))
        except MachineError as error:
            reason = f"no end within {self._limit:g} s" if late.is_set() else error.message
            said = "\n".join(child.log_tail(40))
            self.close()
            trace = said.rpartition(MARK)[2].partition("\n")[2] if MARK in said else said
            return Outcome(case.name, case.op, "crashed", reason, trace=trace)
        finally:
            timer.cancel()

    def close(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None


def _end(pid: int, late: threading.Event) -> None:
    late.set()
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
