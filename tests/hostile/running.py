"""Runs ``modelyard`` on damaged files, and sees what comes of it: answers, time, memory, leftovers.

In process a command runs in a fork of a process that has imported all of it, and a framework's
worker in a fork of that; as a command it is a process like a user's. Either way it gets a folder, a
folder for temporary files and a cache of its own.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import importlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from converter import child as children
from tests.acceptance.cli import COMMAND, tree
from tests.hostile.kinds import BACKENDS, ROOT, Kind
from tests.hostile.mutate import Files

SECONDS = 60
"""Of a case, until it counts as one that hangs."""
CPU_SECONDS = {"plain": 15.0}
"""Of a case, processes that it started included; 45 where a framework reads it."""
MEMORY = 1 << 30
"""Bytes that a process of a case may take above what it began with."""
_SPACE, _FILE = 12 << 30, 256 << 20
"""What a case may map and write at most: the machine's own safety."""

_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of Linux
_NOT_AT_ONCE = ("__main__", "__mp_main__", "coremltools")
"""What isn't imported by its name: coremltools looks for every framework then."""
_RAW = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]"
)


@dataclass(frozen=True)
class Outcome:
    """What came of a case.

    Attributes:
        code: The exit code; below 0 the signal that ended it, None where it had to be ended.
        said: What it printed.
        trace: Where it failed, as far as it says.
        cpu: Seconds, of all its processes.
        memory: Bytes of the largest, above what it began with.
        left: Files and processes that are there still.
    """

    code: int | None
    said: str
    trace: str
    cpu: float
    memory: int
    left: tuple[str, ...]

    def finding(self, kind: Kind) -> str:
        """What is wrong, the same for the same mistake; empty where all is well."""
        if self.code is None:
            return "hangs"
        if self.code not in kind.codes and not self.crashed:
            return f"code {self.code}: {self._mistake()}"
        if "Traceback" in self.said:
            return f"traceback: {self._mistake()}"
        if _RAW.search(self.said):
            return f"prints a raw {_RAW.search(self.said)[0]!r}"  # type: ignore[index]
        if self.left:
            return f"leaves {re.sub(r'[0-9a-z_]{8}', '*', self.left[0])}"
        if self.memory > MEMORY:
            return f"takes more than {MEMORY >> 20} MiB"
        limit = CPU_SECONDS.get(kind.group, 45.0)
        return f"takes more than {limit:g} s" if self.cpu > limit else ""

    @property
    def crashed(self) -> bool:
        """Whether native code ended a worker, or the command, and it says so."""
        return self.code == 6 and "crashed in native code" in self.said

    def _mistake(self) -> str:
        """The exception and the function of ours that it came through."""
        text = self.trace + self.said
        names = re.findall(r"\b(\w*(?:Error|Exception|Fault)): ", text)
        places = re.findall(rf'File "{ROOT}/((?!\.venv)[^"]+)", line \d+, in (\S+)', text)
        if names and (ours := [place for place in places if "cli/" not in place[0]]):
            return f"{names[-1]} in {':'.join(ours[-1])}"
        return (names or [re.sub(r"\d+|'[^']*'|/\S+", "*", self.said.strip())[:90]])[-1]


def adopt_orphans() -> None:
    """Makes this process the parent of what its children leave behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ORPHANS, 1, 0, 0, 0)


def run(files: Files, line: Sequence[str], *, command: bool = False, until: str = "") -> Outcome:
    """What comes of ``modelyard LINE`` in a folder of these files.

    Args:
        files: By path.
        line: The arguments.
        command: Whether it is a process like a user's, rather than a fork of this one.
        until: The call of a worker at which it is enough, in a fork.
    """
    with tempfile.TemporaryDirectory(prefix="hostile-") as base:
        place, temporary, cache = (Path(base) / name for name in ("place", "temporary", "cache"))
        for folder in (place, temporary, cache):
            folder.mkdir()
        for path, data in files.items():
            target = (cache if line[0] == "convert" and path.startswith("m/") else place) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        kept = cache / "m" if line[0] == "convert" else cache
        env = {**os.environ, "TMPDIR": str(temporary), "MODELYARD_CACHE": str(kept),
               "NO_COLOR": "1", "HOME": str(base), "CUDA_VISIBLE_DEVICES": "-1"}  # fmt: skip
        before, began = tree(place), psutil.Process().memory_info().rss
        others = {item.pid for item in psutil.Process().children(True)}
        pid = os.fork()
        if not pid:
            _become(place, env, Path(base), list(line), command, until)
        code, used = _wait(pid, SECONDS * (2 if command else 1))
        left = [*_processes(others), *(path.name for path in temporary.iterdir())]
        after = tree(place)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        left += sorted(path for path in changed if not path.startswith("out"))
        traces = "".join(log.read_text() for log in sorted(kept.glob("logs/*")))
        said = (Path(base) / "said").read_text(errors="surrogateescape")
    memory = used.ru_maxrss * 1024 - began
    return Outcome(code, said, traces, used.ru_utime + used.ru_stime, memory, tuple(left))


def _wait(pid: int, seconds: float) -> tuple[int | None, resource.struct_rusage]:
    deadline, pause = time.monotonic() + seconds, 0.001
    while True:
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), used
        if time.monotonic() > deadline:
            for process in psutil.Process(pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            os.kill(pid, signal.SIGKILL)
            return None, os.wait4(pid, 0)[2]
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def _processes(others: set[int], seconds: float = 3) -> list[str]:
    """What a case started and didn't end; it is ended now."""
    deadline = time.monotonic() + seconds
    while left := [item for item in psutil.Process().children(True) if item.pid not in others]:
        for process in left:
            with suppress(ChildProcessError):  # it is a child's child
                os.waitpid(process.pid, os.WNOHANG)
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    told = [f"a process: {' '.join(process.cmdline())[:80]}" for process in left]
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return told


# -- in the fork ---------------------------------------------------------------------------


def _become(
    place: Path, env: dict[str, str], base: Path, line: list[str], command: bool, until: str
) -> None:
    """Is ``modelyard LINE`` from here on, and never comes back."""
    try:
        os.setsid()
        os.chdir(place)
        said = os.open(base / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (said, 1), (said, 2)):
            os.dup2(source, target)
        mapped = psutil.Process().memory_info().vms
        for limit, most in (
            (resource.RLIMIT_AS, mapped + _SPACE),
            (resource.RLIMIT_FSIZE, _FILE),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(limit, (most, most))
        if command:
            os.execve(COMMAND, ["modelyard", *line], env)
        code = _in_process(env, line, until)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    except BaseException:  # a fork has nobody above it: whatever it is is shown, and ends it
        traceback.print_exc()
    finally:
        os._exit(1)


def _in_process(env: dict[str, str], line: list[str], until: str) -> int:
    from converter import cli, worker

    atexit._clear()

    os.environ.clear()
    os.environ.update(env)
    sys.stdout, sys.stderr = (
        os.fdopen(1, "w"),
        os.fdopen(2, "w"),
    )  # whatever this process has them be
    tempfile.tempdir = None
    faulthandler.enable()
    children.subprocess = SimpleNamespace(Popen=_popen, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    asked = worker.Worker.call

    def call(self: worker.Worker, method: str, **params: Any) -> dict[str, Any]:
        if method == until:
            sys.exit(0)
        return asked(self, method, **params)

    worker.Worker.call = call  # type: ignore[method-assign]
    sys.argv, code = ["modelyard", *line], 0
    try:
        cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    atexit._run_exitfuncs()
    return code


def _popen(argv: list[str], **how: Any) -> Any:
    """A worker as a fork; anything else as it is."""
    return (
        _Forked(argv, **how)
        if str(argv[1]).endswith("worker/main.py")
        else subprocess.Popen(argv, **how)
    )


class _Forked:
    """What :class:`converter.child.Child` asks of a process, of a fork."""

    def __init__(self, argv: list[str], env: dict[str, str], stderr: Any, **how: Any) -> None:
        theirs, ours = os.pipe()
        mine, given = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _be_worker(argv, env, (theirs, given, stderr.fileno()))
        os.close(theirs)
        os.close(given)
        self.stdin, self.stdout = os.fdopen(ours, "wb"), os.fdopen(mine, "rb", 0)

    def wait(self) -> int:
        """Its exit code."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def _be_worker(argv: list[str], env: dict[str, str], streams: tuple[int, int, int]) -> None:
    try:
        os.setsid()
        for target, source in enumerate(streams):
            os.dup2(source, target)
        os.closerange(3, 1024)
        faulthandler.enable()
        os.environ.clear()
        os.environ.update(env)
        sys.argv = argv[1:]
        importlib.import_module("parsers.worker.main").main()
    except BaseException:  # a fork has nobody above it: whatever it is is shown, and ends it
        traceback.print_exc()
    finally:
        os._exit(1)


# -- warm ----------------------------------------------------------------------------------


def warm_up(group: str, good: Sequence[tuple[Files, list[str]]]) -> None:
    """Imports what the commands and the worker of a group import, for good files and their lines.

    Nothing of it runs here, only in forks, which say what they had imported in the end: a library
    that has run may hold threads, which no fork has.
    """
    from converter import plugins
    from converter.coreml_file import coremltools

    for entry in plugins.available("parsers").values():
        importlib.import_module(entry.module)
    coremltools()
    with tempfile.TemporaryDirectory(prefix="hostile-") as base:
        for number, (files, line) in enumerate(good):
            _learn(files, line, Path(base) / str(number))
        main = importlib.import_module("parsers.worker.main")
        main._load_package()
        importlib.import_module(
            f"{main.PACKAGE}.{main.BACKENDS[BACKENDS[group]].partition(':')[0]}"
        )
        names = {name for file in Path(base).iterdir() for name in file.read_text().split()}
    for name in sorted(names):
        if name not in sys.modules and name.partition(".")[0] not in _NOT_AT_ONCE:
            with suppress(Exception):  # one that can't be imported under its name alone
                importlib.import_module(name)


def _learn(files: Files, line: list[str], note: Path) -> None:
    """Runs a command in a fork, which notes what was imported, and its worker's fork likewise."""
    pid = os.fork()
    if not pid:
        leave = os._exit

        def noting(code: int) -> None:
            with suppress(OSError):
                note.with_name(f"{note.name}-{os.getpid()}").write_text("\n".join(sys.modules))
            leave(code)

        os._exit = noting  # type: ignore[assignment]
        outcome = 0
        with suppress(BaseException):
            run(files, line)
        leave(outcome)
    os.waitpid(pid, 0)
