"""Forks of a process that has imported all of ``modelyard``: each is the command, or its worker.

Several commands may run in one fork, one after another: what a fork has to copy before it is of use
is most of what a short command takes.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import os
import resource
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TextIO

from converter.runtime import child as children
from converter.runtime.memory import family
from tests.acceptance.cli import COMMAND

SEVERAL = 50
"""Commands that a fork runs at most."""
_SPACE, _FILE = 12 << 30, 256 << 20
"""Bytes that a fork may map and write at most: the machine's own safety."""

Took = tuple[int | None, float, int]
"""An exit code (below 0 the signal that ended it, None where it had to be ended), seconds of the
processor, and bytes of the largest process above what it began with."""


class Job(NamedTuple):
    """A command: its arguments, its folder, the file that it prints to, its environment, and the
    call of a worker at which it is enough."""

    line: list[str]
    place: Path
    said: Path
    env: dict[str, str]
    until: str = ""


def alone(job: Job, seconds: float, command: bool) -> Took:
    """Runs it in a fork of its own, or as a process like a user's."""
    began = held()[2]  # a fork maps the pages of files again, as it comes by them
    pid = os.fork()
    if not pid:
        with _ended():
            _apart()
            _enter(job)
            if command:
                os.execve(COMMAND, ["modelyard", *job.line], job.env)
            os._exit(_carried_out(job))
    handle = os.pidfd_open(pid)
    in_time = bool(select.select([handle], [], [], seconds)[0])
    os.close(handle)
    if not in_time:
        end(pid)
    _, status, used = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status) if in_time else None
    return code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 - began


def held() -> tuple[int, int, int]:
    """Bytes that this process has mapped, of those in memory, of those no file's."""
    fields = Path("/proc/self/statm").read_text().split()
    mapped, resident, shared = (int(pages) * resource.getpagesize() for pages in fields[:3])
    return mapped, resident, resident - shared


def end(pid: int) -> None:
    """Kills a process, and all that came from it."""
    for number in [*family(pid), pid]:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


class Several:
    """A fork that runs one command after another, and another fork after :data:`SEVERAL`, or once
    anything but memory was left in it."""

    def __init__(self) -> None:
        self._fork: BaseProcess | None = None

    def start(self) -> BaseProcess:
        """The fork that waits."""
        if self._fork is None or not self._left:
            self.end()
            self._left, (self._ours, theirs) = SEVERAL, Pipe()
            self._fork = get_context("fork").Process(target=_serve, args=(self._ours, theirs))
            self._fork.start()
            theirs.close()
        return self._fork

    def run(self, job: Job, seconds: float) -> Took:
        """Runs it there; what it leaves there is there until the next."""
        fork, took, clean = self.start(), (None, 0.0, 0), False
        self._ours.send(job)
        if not self._ours.poll(seconds):
            self.end()
            return took
        try:
            took, clean = self._ours.recv()
        except EOFError:
            fork.join()
            took = fork.exitcode, 0.0, 0
        self._left = self._left - 1 if clean else 0
        return took

    def end(self) -> None:
        """Ends the fork."""
        if self._fork:
            if self._fork.is_alive():
                end(self._fork.pid or 0)
            self._fork.join()
            self._ours.close()
            self._fork = None


# -- in the fork ---------------------------------------------------------------------------


@contextmanager
def _ended() -> Iterator[None]:
    """Ends the process with what is done inside."""
    try:
        yield
    except BaseException:  # a fork has nobody above it: whatever it is is shown, and ends it
        traceback.print_exc()
    finally:
        os._exit(1)


def _apart() -> None:
    os.setsid()
    for limit, most in (
        (resource.RLIMIT_AS, held()[0] + _SPACE),
        (resource.RLIMIT_FSIZE, _FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))


def _enter(job: Job) -> None:
    os.chdir(job.place)
    said = os.open(job.said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (said, 1), (said, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(said)


def _serve(ours: Connection, theirs: Connection) -> None:
    """Runs what it is told to, and tells what came of it, and whether all is as it was before."""
    ours.close()
    with _ended():
        _apart()
        while True:
            job = theirs.recv()
            _enter(job)
            Path("/proc/self/clear_refs").write_text("5")  # the largest so far is what is now
            began, before = held()[1], time.process_time()
            try:
                code, clean = _carried_out(job), True
            except BaseException:  # as in a fork of its own
                traceback.print_exc()
                code, clean = 1, False
            gc.collect()
            threads = len(list(Path("/proc/self/task").iterdir()))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            took = code, time.process_time() - before, peak - began
            theirs.send((took, clean and threads == 1 and not family(os.getpid())))


def _carried_out(job: Job) -> int:
    """Runs a command here; gives its exit code."""
    from converter import cli
    from converter.runtime import worker

    atexit._clear()
    os.environ.clear()
    os.environ.update(job.env)
    sys.stdin, sys.stdout, sys.stderr = _streams()
    tempfile.tempdir = None
    faulthandler.enable()
    children.subprocess = SimpleNamespace(Popen=_popen, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    asked = worker.Worker.call

    def call(self: worker.Worker, method: str, **params: Any) -> dict[str, Any]:
        if method == job.until:
            sys.exit(0)
        return asked(self, method, **params)

    sys.argv, code = ["modelyard", *job.line], 0
    worker.Worker.call = call  # type: ignore[method-assign]
    try:
        cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    worker.Worker.call = asked  # type: ignore[method-assign]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _streams() -> tuple[TextIO, TextIO, TextIO]:
    """Python's, anew, whatever this process has them be."""
    return tuple(open(number, mode, closefd=False) for number, mode in enumerate("rww"))


def _popen(argv: list[str], **how: Any) -> Any:
    """A worker, or a module of ours, as a fork; anything else as it is."""
    if argv[1].endswith("worker/main.py"):
        return _Forked("parsers.worker.main", argv[1:], **how)
    if argv[2].endswith("modelyard/own.py"):
        return _Forked(argv[3], argv[3:], **how)
    return subprocess.Popen(argv, **how)


class _Forked:
    """What :class:`converter.runtime.child.Child` asks of a process, of a fork."""

    def __init__(
        self, module: str, argv: list[str], env: dict[str, str], stderr: Any, **how: Any
    ) -> None:
        theirs, ours = os.pipe()
        mine, given = os.pipe()
        self.returncode: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _be_child(module, argv, env, (theirs, given, stderr.fileno()))
        os.close(theirs)
        os.close(given)
        self.stdin, self.stdout = os.fdopen(ours, "wb"), os.fdopen(mine, "rb", 0)

    def wait(self) -> int:
        """Its exit code."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def _be_child(
    module: str, argv: list[str], env: dict[str, str], streams: tuple[int, int, int]
) -> None:
    with _ended():
        os.setsid()
        for target, source in enumerate(streams):
            os.dup2(source, target)
        os.closerange(3, 1024)
        faulthandler.enable()
        os.environ.clear()
        os.environ.update(env)
        sys.stdin, sys.stdout, sys.stderr = _streams()
        sys.argv = argv
        runpy.run_module(module, run_name="__main__", alter_sys=True)
