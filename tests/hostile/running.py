"""Runs ``modelyard`` on damaged files, and sees what comes of it: answers, time, memory, leftovers.

A command gets a folder, a folder for temporary files and a cache of its own, whether it is a
process like a user's or runs in a fork (tests/hostile/forking.py).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from converter.runtime.memory import family
from tests.acceptance.cli import tree
from tests.hostile.forking import Job, Several, alone, end
from tests.hostile.kinds import BACKENDS, ROOT, Kind
from tests.hostile.mutate import Files

SECONDS = 300
"""Of a case, until it counts as one that hangs."""
CPU_SECONDS = {"plain": 15.0}
"""Of a case, processes that it started included; 45 where a framework reads it."""
MEMORY = 1 << 30
"""Bytes that a process of a case may take above what it began with."""
_FOLDERS = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where cases lie: in memory, where there is such a place."""

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


def run(files: Files, line: Sequence[str], *, command: bool = False, until: str = "",
        several: Several | None = None) -> Outcome:  # fmt: skip
    """What comes of ``modelyard LINE`` in a folder of these files.

    Args:
        files: By path.
        line: The arguments.
        command: Whether it is a process like a user's, rather than a fork of this one.
        until: The call of a worker at which it is enough, in a fork.
        several: The fork to run it in.
    """
    with tempfile.TemporaryDirectory(prefix="hostile-", dir=_FOLDERS) as base:
        place, temporary, cache = (Path(base) / name for name in ("place", "temporary", "cache"))
        for folder in (place, temporary, cache):
            folder.mkdir()
        for path, data in files.items():
            target = (cache if line[0] == "convert" and path.startswith("m/") else place) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        kept, said = cache / "m" if line[0] == "convert" else cache, Path(base) / "said"
        env = {**os.environ, "TMPDIR": str(temporary), "MODELYARD_CACHE": str(kept),
               "NO_COLOR": "1", "HOME": str(base), "CUDA_VISIBLE_DEVICES": "-1"}  # fmt: skip
        job = Job(list(line), place, said, env, until)
        if several:
            several.start()
        before, others = tree(place), set(family(os.getpid()))
        code, cpu, memory = (
            several.run(job, SECONDS) if several
            else alone(job, SECONDS * (2 if command else 1), command)
        )  # fmt: skip
        left = [*_processes(others), *(path.name for path in temporary.iterdir())]
        after = tree(place)
        changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
        left += sorted(path for path in changed if not path.startswith("out"))
        traces = "".join(log.read_text() for log in sorted(kept.glob("logs/*")))
        text = said.read_text(errors="surrogateescape")
    return Outcome(code, text, traces, cpu, memory, tuple(left))


def _processes(others: set[int], seconds: float = 3) -> list[str]:
    """What a case started and didn't end; it is ended now."""
    deadline = time.monotonic() + seconds
    while left := [pid for pid in family(os.getpid()) if pid not in others]:
        for pid in left:
            with suppress(ChildProcessError):  # it is a child's child
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    told = []
    for pid in left:
        with suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
            told.append(f"a process: {line.decode(errors='replace')[:80]}")
        end(pid)
    return told


# -- warm ----------------------------------------------------------------------------------


def warm_up(group: str, good: Sequence[tuple[Files, list[str]]]) -> None:
    """Imports what the commands and the worker of a group import, for good files and their lines.

    Nothing of it runs here, only in forks, which say what they had imported in the end: a library
    that has run may hold threads, which no fork has.
    """
    from converter import plugins
    from modelyard.containers.coreml import coremltools

    for entry in plugins.available("parsers").values():
        importlib.import_module(entry.module)
    coremltools()
    with tempfile.TemporaryDirectory(prefix="hostile-") as base:
        for number, (files, line) in enumerate(good):
            _learn(files, line, Path(base) / str(number))
        main = importlib.import_module("parsers.worker.main")
        main._load_package()
        importlib.import_module(f"{main.PACKAGE}.{BACKENDS[group].partition(':')[0]}")
        names = {name for file in Path(base).iterdir() for name in file.read_text().split()}
    if group == "plain":  # simplifiers load it where it is there, and their process says it isn't
        sys.modules.setdefault("torch", None)  # type: ignore[arg-type]
    for name in sorted(names):
        if name not in sys.modules and name.partition(".")[0] not in _NOT_AT_ONCE:
            with suppress(Exception):  # one that can't be imported under its name alone
                importlib.import_module(name)
    if sys.modules.get("torch", "") is None:
        del sys.modules["torch"]
    gc.collect()
    gc.freeze()  # what a fork looks at to collect, it would have to copy


def _learn(files: Files, line: list[str], note: Path) -> None:
    """Runs a command in a fork, which notes what was imported, and its worker's fork likewise."""
    pid = os.fork()
    if not pid:
        leave = os._exit

        def noting(code: int) -> None:
            with suppress(OSError):
                names = "\n".join(name for name, module in sys.modules.items() if module)
                note.with_name(f"{note.name}-{os.getpid()}").write_text(names)
            leave(code)

        os._exit = noting  # type: ignore[assignment]
        outcome = 0
        with suppress(BaseException):
            run(files, line)
        leave(outcome)
    os.waitpid(pid, 0)
