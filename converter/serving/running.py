"""A server's process: started, waited for until it answers, and ended with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from converter.errors import MachineError
from converter.protocols.server import Command, Launch, Server
from converter.runtime.supervised import CLEANER
from converter.serving.environments import own_variables

Say = Callable[[str], None]

READY_SECONDS = 180.0
STOP_SECONDS = 4.0
"""For the server to end by itself: less than :data:`converter.runtime.supervised.GRACE`."""

RESTARTS = 3
"""How often a server is started again that a request, or the system, made end."""

_ASKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals by which somebody wants it to end."""

_POLL = 0.1
_KEPT = 80
"""Lines of the log that an error shows."""

_MARK = "MODELYARD_SERVING"
"""A variable that all processes of one server have, whatever session they move to."""

_WATCH = """
read _
kill -s KILL -- "-$1" 2>/dev/null
test -z "$2" || rm -f "/dev/shm/$2"*
shift 2
"$@" >/dev/null 2>&1
"""
"""A shell's script that ends the server's process group where we are gone: only we hold the other
end of its standard input. Then it removes :attr:`Command.shared`, and runs :attr:`Command.after`.
"""


class Running:
    """A server that runs a package.

    Args:
        server: Its plug-in.
        launch: Where it is to run.
        command: What starts it there.
        said: Called with each line of its log, from a thread; None keeps the last for an error.

    Attributes:
        tail: The last lines of the log.
    """

    def __init__(self, server: Server, launch: Launch, command: Command, said: Say | None) -> None:
        self._server, self._launch, self._said = server, launch, said
        self._command = command
        self.tail: deque[str] = deque(maxlen=_KEPT)
        self._start()

    def _start(self) -> None:
        launch, command = self._launch, self._command
        self._mark = uuid.uuid4().hex
        path = f"{launch.environment / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        variables = own_variables() | {"PATH": path, _MARK: self._mark}
        variables |= {"PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        variables |= command.variables
        self._process = subprocess.Popen(
            command.line, cwd=command.folder or launch.scratch, env=variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
        watch = ["sh", "-c", _WATCH, "sh", str(self.pid), command.shared]
        watch += command.after or ["true"]
        self._watch = subprocess.Popen(
            watch, stdin=subprocess.PIPE, start_new_session=True, env={**os.environ, CLEANER: "1"}
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process that was started: the others come from it."""
        return self._process.pid

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> None:
        """Returns once the server answers.

        Raises:
            MachineError: It ended, or took too long; the end of its log is in the details.
        """
        deadline = time.monotonic() + seconds
        while not self._server.ready(self._launch):
            if self._process.poll() is not None:
                raise self.failure(f"ended during its start with code {self._process.returncode}")
            if time.monotonic() > deadline:
                raise self.failure(f"wasn't ready in {seconds:.0f} s")
            time.sleep(_POLL)

    def wait(self, tell: Say) -> str:
        """Until the server ends by itself; how it did. One that a signal ended, and not one that
        asks it to, is started again, :data:`RESTARTS` times at most.

        Args:
            tell: Called with a line for each of these.

        Raises:
            MachineError: It ended while it started again.
        """
        for again in range(1, RESTARTS + 1):
            code = self._process.wait()
            if (number := _signal_of(code)) is None:
                return f"ended by itself with code {code}"
            name = self._server.name
            tell(f"{name} was ended by {number.name}; starting it again ({again} of {RESTARTS})")
            self.stop()
            self._start()
            self.wait_until_ready()
            tell(f"{name} answers again, as process {self.pid}")
        code = self._process.wait()
        number = _signal_of(code)
        how = f"was ended by {number.name}" if number else f"ended by itself with code {code}"
        return f"{how}, after {RESTARTS} restarts"

    def failure(self, what: str) -> MachineError:
        """What to raise where the server failed."""
        self._reader.join(timeout=1)
        return MachineError(
            f"the {self._server.name} server {what}",
            code="process-ended",
            details=() if self._said else list(self.tail),
        )

    def stop(self) -> None:
        """Ends the server and all that came from it; safe to call twice."""
        with suppress(subprocess.TimeoutExpired):
            self._process.terminate()
            self._process.wait(STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for pid in self._family():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._watch.communicate()
        self._reader.join(timeout=2)  # the log ends with the last of them

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed under it, where somebody outlives the server
            for line in self._process.stdout:
                self.tail.append(line.rstrip("\n"))
                if self._said:
                    self._said(self.tail[-1])

    def _family(self) -> Iterator[int]:
        """The processes that have this server's mark, where the system tells."""
        mark = f"{_MARK}={self._mark}".encode()
        for place in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in place.read_bytes().split(b"\0"):
                    yield int(place.parent.name)


def _signal_of(code: int) -> signal.Signals | None:
    """The signal that ended a process, or what it runs (a shell and a container say so by 128 and
    more); None where there is none, or one by which it was asked to end."""
    number = -code if code < 0 else code - 128
    found = signal.Signals(number) if number in set(signal.Signals) else None
    return None if found in _ASKED else found
