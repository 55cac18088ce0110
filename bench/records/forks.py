"""Runs cases in forks of a process that has imported everything: one that dies, doesn't end, or
takes too much memory costs one case."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from converter.runtime.worker import warm_workers

MEMORY = 10 << 30
"""Bytes of private memory that a process of a case may take (``RLIMIT_DATA``)."""

Work = Callable[[str], dict[str, Any]]


def run_each(
    names: Sequence[str], work: Work, *, seconds: float, in_fork: int, log: Path
) -> Iterator[dict[str, Any]]:
    """What ``work`` gives for each name, in order, with the name in it.

    Args:
        names: The cases.
        work: Called with a name, in a fork; what it gives has to go into JSON.
        seconds: Longest time for a case. A fork that takes longer is killed.
        in_fork: Cases for each fork, one after another.
        log: Where the forks' own output goes.

    Yields:
        ``{"name": ..., "seconds": ..., **what work gave}``; where the fork ended instead,
        ``{"name": ..., "crashed": why}``.
    """
    rest = [*names]
    while rest:
        fork = _Fork(rest[:in_fork], work, log)
        for name in rest[:in_fork]:
            start = time.perf_counter()
            found = fork.next(seconds)
            rest.pop(0)
            yield {"name": name, "seconds": round(time.perf_counter() - start, 2), **found}
            if "crashed" in found:
                break
        fork.end()


class _Fork:
    """A process that works on cases and writes a line for each."""

    def __init__(self, names: Sequence[str], work: Work, log: Path) -> None:
        self._from, into = os.pipe()
        self._read = b""
        self.pid = os.fork()
        if not self.pid:
            os.close(self._from)
            _work_on(names, work, into, log)
        os.close(into)

    def next(self, seconds: float) -> dict[str, Any]:
        """The next case's line, or why there is none."""
        until = time.monotonic() + seconds
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return {"crashed": f"no end within {seconds:g} s"}
            got = os.read(self._from, 1 << 16)
            if not got:
                return {"crashed": self._how_it_ended()}
            self._read += got
        line, _, self._read = self._read.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _how_it_ended(self) -> str:
        _, status = os.waitpid(self.pid, 0)
        code, self.pid = os.waitstatus_to_exitcode(status), 0
        return f"the process ended by {signal.Signals(-code).name}" if code < 0 else f"code {code}"

    def end(self) -> None:
        """Ends it, with what it started."""
        os.close(self._from)
        if self.pid:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


def _work_on(names: Sequence[str], work: Work, into: int, log: Path) -> None:
    """Never returns."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 1
    try:
        with warm_workers():
            for name in names:
                os.write(output, f"--- {name}\n".encode())
                line = (json.dumps(work(name)) + "\n").encode()
                while line:
                    line = line[os.write(into, line) :]
        code = 0
    except BaseException:  # the fork ends below, and nobody else would write this down
        import traceback

        os.write(output, traceback.format_exc().encode())
        raise
    finally:  # nothing of the parent's may be closed or flushed here
        os._exit(code)
