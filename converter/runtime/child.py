"""Talks to a child process in JSON lines: one request, progress while it works, one answer.

Frameworks and simplifiers run in such children. A child holds the reading end of our
pipe as its standard input and ends when that closes, so that it dies with us however we
die; on the way out we also end its whole process group.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from converter.errors import MachineError
from converter.files.temporary import for_children
from converter.text.words import middle, one_line

POLL_SECONDS = 0.5
"""How often a silent child is looked at."""


LEAVE_SECONDS = 2.0
"""How long a child may take to end once its input is closed."""

_WIDTH = 300
"""Characters of a line of its log that an error shows."""

_CRASHED = "It crashed in native code: a damaged file, or packages that don't go together."
_KILLED: dict[int, str] = {
    signal.SIGKILL: "The system may have run out of memory.",
    signal.SIGILL: "A package may be built for a newer processor than this one.",
    **dict.fromkeys((signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE), _CRASHED),
}


class ChildError(Exception):
    """The child answered with an error.

    Attributes:
        kind: ``usage``, ``unsupported``, ``dependency``, ``untrusted``, ``source``, ``broken``,
            ``machine``, ``internal``.
        message, details: A line each: what libraries say has breaks and colours of its own.
        traceback: As the child gave it.
        fields: All that came.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.kind = str(fields.get("kind", "internal"))
        self.message = one_line(fields.get("message", ""))
        super().__init__(self.message)
        self.details = [one_line(item) for item in fields.get("details") or ()]
        self.traceback = str(fields.get("traceback") or "")
        self.fields = dict(fields)


class Child:
    """A child process that answers requests.

    Args:
        argv: What to run.
        what: What it is called in messages: ``the process of the samples``.
        env: Changes to the environment; None takes a variable out.
        progress: Called with each progress text.
        warning: Called with each warning.

    Its standard error, and whatever is printed in it, goes to a log file that
    :meth:`log_tail` gives the end of.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        what: str,
        env: Mapping[str, str | None] | None = None,
        progress: Callable[[str], None] | None = None,
        warning: Callable[[str], None] | None = None,
    ) -> None:
        self.what = what
        self._progress = progress
        self._warning = warning
        self._next_id = 0
        self._unread = b""
        self._lock = threading.RLock()
        self._ending = threading.Lock()
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=changed_environment({"TMPDIR": str(for_children()), **(env or {})}),
            start_new_session=True,
        )
        with _living_lock:
            _living.add(self)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Asks the child for ``method`` and waits for its answer.

        Raises:
            ChildError: The child answered with an error.
            MachineError: It died; the end of its log is in the error.
        """
        with self._lock:
            self._next_id += 1
            self._send({"id": self._next_id, "method": method, "params": params})
            return self._answer(self._next_id)

    def _send(self, request: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise self._died() from error

    def _answer(self, number: int) -> dict[str, Any]:
        for line in self._lines():
            message = self._message(line)
            if "event" in message:
                self._tell(message)
            elif message.get("id") == number:
                if "error" in message:
                    raise ChildError(message["error"])
                result: dict[str, Any] = message.get("result") or {}
                return result
        raise self._died()

    def _message(self, line: bytes) -> dict[str, Any]:
        """What a line says; one that is no message is what something else printed, for the log.

        An interpreter of the user's may greet before anything of ours runs in it.
        """
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if isinstance(message, dict):
            return message
        with open(self._log.fileno(), "ab", closefd=False) as log:
            log.write(line + b"\n")
        return {}

    def _lines(self) -> Iterator[bytes]:
        """What the child says, until it ends, even where something that it started lives on."""
        assert self._process.stdout is not None
        while not self._process.stdout.closed:
            pipe = self._process.stdout.fileno()
            line, newline, rest = self._unread.partition(b"\n")
            if newline:
                self._unread = rest
                yield line
            elif select.select([pipe], [], [], POLL_SECONDS)[0]:
                piece = os.read(pipe, 1 << 16)
                if not piece:
                    return
                self._unread += piece
            elif self._has_ended() and not select.select([pipe], [], [], 0)[0]:
                return  # what it said just before its end has been read too

    def _tell(self, message: Mapping[str, Any]) -> None:
        listener = {"progress": self._progress, "warning": self._warning}.get(message["event"])
        if listener:
            listener(one_line(message.get("text", "")))

    def _died(self) -> MachineError:
        """What to say of a child that answers no more; ends what is left of it."""
        if self._log.closed:
            return MachineError(f"{self.what} was ended", code="process-ended")
        silent = not self._wait(LEAVE_SECONDS)
        code = self._end()
        tail = self.log_tail(15)
        if silent:
            return MachineError(
                f"{self.what} closed its pipe, but didn't end", code="process-ended", details=tail
            )
        how = (
            f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        )
        return MachineError(
            f"{self.what} {how}", code="process-ended", details=tail, hint=_KILLED.get(-code, "")
        )

    def _has_ended(self) -> bool:
        """Whether it has; its number stays taken until :meth:`_end`, for its group."""
        if self._process.returncode is not None:
            return True
        how = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self._process.pid, how) is not None
        except ChildProcessError:  # another thread has just seen it end
            return True

    def _wait(self, seconds: float) -> bool:
        """Waits for its end; gives whether it came."""
        deadline, pause = time.monotonic() + seconds, 0.001
        while not self._has_ended():
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return True

    def _end(self) -> int:
        """Kills it, and everything in its process group; gives its exit code."""
        with self._ending:
            if self._process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):  # macOS: a group of zombies
                    os.killpg(self._process.pid, signal.SIGKILL)
            return self._process.wait()

    def rest(self) -> bool:
        """Has what answers for one model end (``shutdown``), while the process that forked it
        lives; whether it does: not in the middle of a call."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self.call("shutdown")
            return True
        except (ChildError, MachineError):
            return False
        finally:
            self._lock.release()

    def resume(
        self, what: str, progress: Callable[[str], None], warning: Callable[[str], None]
    ) -> bool:
        """Serves another owner, with an empty log.

        Args:
            what: What the child is called in messages from now on.
            progress: Called with each progress text.
            warning: Called with each warning.

        Returns:
            Whether the child still lives.
        """
        self.what, self._progress, self._warning = what, progress, warning
        log = self._log.fileno()
        os.ftruncate(log, 0)
        os.lseek(log, 0, os.SEEK_SET)  # the child's too: it is one open file
        return not self._has_ended()

    def log_tail(self, lines: int) -> list[str]:
        """The last lines that the child printed."""
        with open(self._log.fileno(), "rb", closefd=False) as log:
            log.seek(0)
            last = deque(log, lines)
        return [middle(one_line(line.decode(errors="replace").rstrip()), _WIDTH) for line in last]

    def close(self) -> None:
        """Ends the child, and everything in its process group.

        A call that another thread is in ends with MachineError.
        """
        if self._process.stdin and not self._process.stdin.closed:
            with suppress(BrokenPipeError):  # it has ended already
                self._process.stdin.close()
        self._wait(LEAVE_SECONDS)
        self._end()
        with self._lock:  # not under the hands of a call: its pipe's number may go to another file
            if self._process.stdout:
                self._process.stdout.close()
            self._log.close()


_living: weakref.WeakSet[Child] = weakref.WeakSet()
_living_lock = threading.Lock()


def end_children() -> None:
    """Kills every child, whoever waits for it: the user has interrupted us.

    They have sessions of their own, so that Ctrl-C on the terminal doesn't reach them.
    """
    with _living_lock:
        children = list(_living)
    for child in children:
        child._end()


def changed_environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Our environment with changes made to it; None takes a variable out."""
    merged = {**os.environ, **changes}
    return {name: text for name, text in merged.items() if text is not None}


def worker_env() -> dict[str, str]:
    """The environment in which a child gives the same bytes every time."""
    return {
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # a crash in native code says from where it was called
        "TOKENIZERS_PARALLELISM": "false",
    }


def own_module(name: str) -> tuple[str, ...]:
    """What runs a module of ours in a child, whatever the user's folders and PYTHONPATH hold."""
    return (sys.executable, "-P", here(__file__, "..", "..", "modelyard", "own.py"), name)


def here(module_file: str, *parts: str) -> str:
    """A file beside a module, as a string."""
    return str(Path(module_file).resolve().parent.joinpath(*parts))
