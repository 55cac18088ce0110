"""Runs cases in child processes: one that dies, or doesn't end, costs one case."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from converter.child import Child, ChildError, worker_env
from converter.errors import DependencyError, MachineError
from tests.conformance.cases import Case, Store
from tests.conformance.outcome import Outcome, Settings
from tests.conformance.worker import MARK

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_SECONDS = 60.0
"""Longest time for one case."""

Seen = Callable[[Outcome], None]


def run_cases(
    store: Store,
    cases: Sequence[Case],
    settings: Settings,
    *,
    jobs: int = 2,
    limit: float = LIMIT_SECONDS,
    seen: Seen = lambda outcome: None,
) -> list[Outcome]:
    """What becomes of each case, in the order of ``cases``.

    Args:
        store, cases, settings: What to run, and how.
        jobs: Children at once.
        limit: Seconds for one case; a child that takes longer is ended.
        seen: Called with each outcome as it comes, by one thread at a time.

    Raises:
        DependencyError: The target can't work here at all.
    """
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)
    done: dict[str, Outcome] = {}
    errors: list[BaseException] = []
    lock = threading.Lock()

    def work() -> None:
        worker = _Worker(store, settings, limit)
        try:
            while not errors:
                with suppress(queue.Empty):
                    outcome = worker.run(waiting.get_nowait())
                    with lock:
                        done[outcome.name] = outcome
                        seen(outcome)
                    continue
                return
        except Exception as error:  # raised again below, in the caller's thread
            errors.append(error)
        finally:
            worker.close()

    threads = [threading.Thread(target=work) for _ in range(min(jobs, len(cases)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt as error:  # the threads end after the cases they are at
        errors.append(error)
        raise
    if errors:
        raise errors[0]
    return [done[case.name] for case in cases]


class _Worker:
    """One child at a time, started when there is something to do."""

    def __init__(self, store: Store, settings: Settings, limit: float) -> None:
        where = json.dumps(asdict(settings))
        module = "tests.conformance.worker"
        self._argv = [sys.executable, "-m", module, str(store.path), where]
        self._limit = limit
        self._child: Child | None = None

    def run(self, case: Case) -> Outcome:
        """The case's outcome; what a dead child's is, too.

        Raises:
            DependencyError: The target can't work here at all.
        """
        try:
            child = self._child = self._child or self._start()
            return self._call(child, case)
        except ChildError as error:
            raise DependencyError(f"{case.name}: {error.kind}: {error.message}") from error

    def _start(self) -> Child:
        """A child that has imported what it needs: that doesn't count as time of a case."""
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        env = {**worker_env(), "PYTHONPATH": path}
        child = Child(self._argv, what="the process", env=env)
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
            trace = "\n".join(_since_mark(child.log_tail(40)))
            self.close()
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


def _since_mark(lines: list[str]) -> list[str]:
    marks = [i for i, line in enumerate(lines) if line.startswith(MARK)]
    return lines[marks[-1] + 1 :] if marks else lines
