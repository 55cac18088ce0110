"""Runs ``modelyard`` and ends it, or a child of it, at a named point.

A point is a moment and what is done then: ``before rename made out``, ``amid remove gone``,
``after step simplify``, ``amid call parse``. The run's process group is killed there; the child
that is asked at ``child call parse``; at ``SIGTERM after step simplify`` the run gets that signal.
What only happens where nobody looks (in the folder that a run works in) isn't a point.
"""

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from converter import cli, plugins
from converter.files import output_guard
from converter.pipeline.run import Run
from converter.runtime.child import Child
from tests.acceptance.cli import COMMAND

MARK = "MODELYARD_TEST_MARK"
"""The variable by which a run's processes are known: the folder it runs in."""

_SHORT = (
    (r"[0-9a-f]{64}", "KEY"),
    (r"(adding|modelyard|modelyard-run)-\w{8}$", r"\1"),
    (r"^\d+$", "N"),
)
_HIDDEN = re.compile(r"/made/|\.temporary/|/\.adding-\w+/")
_IMPORTED = ("api", "cli.convert", "cli.show", "report.terminal", "results", "lowering", "tracing")


NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.conv(x).relu().mean((2, 3)))
"""
"""A module to convert."""


class _Points:
    """Notes each point that is reached, and ends the run at the one of that name."""

    def __init__(self, log: Path, at: str) -> None:
        self._signal, self._at = re.fullmatch(r"(SIG\w+ )?(.*)", at).groups()  # type: ignore[union-attr]
        self._log = log.open("w")

    def reach(self, moment: str, what: str) -> bool:
        if not what:
            return False
        print(moment, what, file=self._log, flush=True)
        if f"{moment} {what}" != self._at:
            return False
        if self._signal:
            os.kill(os.getpid(), signal.Signals[self._signal.strip()])
        elif moment != "child":
            os.killpg(0, signal.SIGKILL)
        return True

    def around(self, owner: Any, name: str, label: Callable[..., str]) -> None:
        """Has every call of a function be two points."""
        original = getattr(owner, name)

        def call(*args: Any, **how: Any) -> Any:
            what = label(*args)
            self.reach("before", what)
            result = original(*args, **how)
            self.reach("after", what)
            return result

        setattr(owner, name, call)

    def install(self) -> None:
        """Puts points into what moves, removes and marks folders, carries out steps, and asks
        children."""
        unlink, remove, write, send = os.unlink, shutil.rmtree, Path.write_text, Child._send

        def removing(path: Any, *args: Any, **how: Any) -> Any:
            gone: list[Any] = []

            def second(file: Any, *args: Any, **how: Any) -> None:
                unlink(file, *args, **how)
                gone.append(file)
                if len(gone) == 2:
                    self.reach("amid", _label("remove", path))

            with _put(os, "unlink", second):
                return remove(path, *args, **how)

        def writing(path: Path, *args: Any, **how: Any) -> int:
            if path.name == output_guard.MARK:
                path.open("w").close()
                self.reach("amid", f"mark {_name(path.parent)}")
            return write(path, *args, **how)

        def sending(child: Child, request: Any) -> None:
            send(child, request)
            what = f"call {request['method']}"
            self.reach("amid", what)
            if self.reach("child", what):
                os.killpg(child.pid, signal.SIGKILL)

        shutil.rmtree, Path.write_text, Child._send = removing, writing, sending
        for name in ("rename", "replace"):
            self.around(os, name, lambda *paths, op=name: _label(op, *paths[:2]))
        self.around(shutil, "rmtree", lambda path, *rest: _label("remove", path))
        self.around(Run, "do", lambda run, step, *_: f"step {run.shown(step).id}")


@contextmanager
def _put(owner: Any, name: str, value: Any) -> Any:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _label(op: str, *paths: Any) -> str:
    """What is done to which files, by their names; empty for what nobody sees."""
    texts = [os.path.abspath(os.fsdecode(path)) for path in paths]  # noqa: PTH100
    hidden = all(_HIDDEN.search(text) for text in texts)
    return "" if hidden else " ".join([op, *map(_name, texts)])


def _name(path: Any) -> str:
    name = Path(path).name
    for pattern, short in _SHORT:
        name = re.sub(pattern, short, name)
    return name


def run(args: Sequence[str], folder: Path, at: str) -> None:
    """Runs ``modelyard ARGS`` in this process, in ``folder``; leaves the points that it came by in
    ``FOLDER.points``, and what it says in ``FOLDER.log``."""
    os.setsid()
    os.chdir(folder)
    os.environ |= _environment(folder)
    tempfile.tempdir = None
    with folder.with_suffix(".log").open("w") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    _Points(folder.with_suffix(".points"), at).install()
    sys.argv = ["modelyard", *args]
    cli.main()


def _environment(folder: Path) -> dict[str, str]:
    """A cache, a folder for temporary files, and a mark, beside a folder and called after it."""
    temporary, kept = folder.with_suffix(".temporary"), folder.with_suffix(".cache")
    temporary.mkdir(exist_ok=True)
    return {"TMPDIR": str(temporary), "MODELYARD_CACHE": str(kept), MARK: str(folder)}


def forked(args: Sequence[str], folder: Path, at: str = "") -> int:
    """The exit code of :func:`run` in a fork of a process that has imported all of it."""
    kinds = ("parsers", "passes", "emitters", "servers")
    used = [entry.module for kind in kinds for entry in plugins.available(kind).values()]
    _SERVER.set_forkserver_preload([__name__, *(f"converter.{name}" for name in _IMPORTED), *used])
    process = _SERVER.Process(target=run, args=(args, folder, at))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


_SERVER = multiprocessing.get_context("forkserver")


def alone(args: Sequence[str], folder: Path, at: str = "") -> int:
    """The same, in a process that isn't a fork."""
    command = [sys.executable, "-m", "tests.faults", str(folder), at, *args]
    return subprocess.run(command, cwd=Path(__file__).parents[1], check=False).returncode


def start(args: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """``modelyard ARGS`` in a process of its own, in ``folder``."""
    env, none = {**os.environ, **_environment(folder)}, subprocess.DEVNULL
    return subprocess.Popen(
        [str(COMMAND), *args], cwd=folder, env=env, stdin=none, stdout=none, stderr=none
    )


def require_ended(folder: Path, seconds: float = 10) -> None:
    """Waits for the end of all that a run in ``folder`` has started, however indirectly."""
    deadline = time.monotonic() + seconds
    while left := [process for process in psutil.process_iter() if _is_of(process, folder)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def _is_of(process: psutil.Process, folder: Path) -> bool:
    try:
        ended = process.status() == psutil.STATUS_ZOMBIE
        return not ended and process.environ().get(MARK) == str(folder)
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False


if __name__ == "__main__":
    run(sys.argv[3:], Path(sys.argv[1]), sys.argv[2])
