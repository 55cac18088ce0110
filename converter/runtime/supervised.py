"""A command in a process that can always be ended, by its user, its memory or a clock.

What foreign files make libraries do runs in C++, often without letting Python run meanwhile:
signals wait, and nothing of ours can look at the memory. So the command's first process stays
small: it forks, the child carries the command out, and the parent passes signals on, watches what
the child and everything that it starts have taken, and ends all of it where that is due. A child
that doesn't end at SIGTERM or Ctrl-C within :data:`GRACE` is killed, and the parent clears what
there is of the output that it was making.

On Linux only. Elsewhere, and for a call from Python, the command runs in the caller's process.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from converter.errors import MachineError, ModelyardError, UsageError
from converter.runtime import memory

GRACE = 8.0
"""Seconds that a child has to clean up in once it was told to end."""

_STEP_S, _FAR_S = 0.02, 0.5
"""Seconds between two looks at the memory: at least, when little is left, and at most."""

_QUICKEST = 4 << 30
"""Bytes that a process may take in a second: what is left, by this, says when to look again."""

_FAMILY_S = 1.0
"""Seconds for which it is believed who belongs to the family, while there is room."""

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # linux/prctl.h

CLEANER = "MODELYARD_CLEANER"
"""A variable of processes that clear what others leave: they get :data:`GRACE` seconds for it where
all else is killed."""

_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)

_TEXT, _PATH, _CLOCK = 512, 4096, struct.Struct("d")


class _Note:
    """What the child tells its parent, who may look at it at any time: in memory that both have."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _TEXT + _PATH + _CLOCK.size)

    def say(self, doing: str) -> None:
        self._shared[:_TEXT] = doing.encode()[:_TEXT].ljust(_TEXT, b"\0")

    def doing(self) -> str:
        return self._shared[:_TEXT].rstrip(b"\0").decode(errors="ignore")

    def work_at(self, place: bytes) -> None:
        if len(place) <= _PATH:
            self._shared[_TEXT : _TEXT + _PATH] = place.ljust(_PATH, b"\0")

    def place(self) -> bytes:
        return self._shared[_TEXT : _TEXT + _PATH].rstrip(b"\0")

    def end_by(self, moment: float) -> None:
        _CLOCK.pack_into(self._shared, _TEXT + _PATH, moment)

    def deadline(self) -> float:
        moment: float = _CLOCK.unpack_from(self._shared, _TEXT + _PATH)[0]
        return moment


_note: _Note | None = None


def tell(doing: str) -> None:
    """Says what is being done, for the message of a parent that has to end this process."""
    if _note is not None:
        _note.say(doing)


def work_at(out: Path | None) -> None:
    """Says which output is being made, so that the parent clears what is left of it if it has to
    kill this process; None once it is made."""
    if _note is not None:
        _note.work_at(os.fsencode(out) if out else b"")


def limit_time(seconds: float) -> None:
    """Has the parent end this process in ``seconds`` from now; 0 for never."""
    if _note is not None:
        _note.end_by(time.monotonic() + seconds if seconds else 0.0)


def settle() -> None:
    """Has the collector of garbage pass over what is there, which is modules: the command's own
    process ends before they do. A caller's process is left as it is."""
    if _note is not None:
        gc.freeze()


def supervised(
    main: Callable[[], None],
    clear: Callable[[Path], None],
    end_with: Callable[[ModelyardError], NoReturn],
) -> None:
    """Carries out a command in a child, and ends as that does.

    Args:
        main: The command.
        clear: Clears what a killed child left of an output; see :func:`work_at`.
        end_with: Shows an error, and ends the process with its exit code.
    """
    global _note
    if sys.platform != "linux":
        main()
        return
    try:
        room = memory.Memory.here()
    except ValueError as error:
        end_with(UsageError(f"{memory.VARIABLE}: {error}", code="option-value"))
    note = _Note()
    signals = {signal.SIGCHLD, signal.SIGALRM, signal.SIGTERM}
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # nohup, or in the background
        signals.add(signal.SIGINT)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    parent, control = os.getpid(), ctypes.CDLL(None).prctl
    child = os.fork()
    if child:
        control(_SET_SUBREAPER, 1, 0, 0, 0)  # what the child leaves running comes to us
        _Supervisor(child, note, room, signals, clear, end_with).wait()
    control(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it has been killed already
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _note = note
    main()


class _Supervisor:
    """Waits for the child.

    Args:
        child: Its number.
        note: What it tells.
        room: What it may take; None where the system doesn't say.
        signals: What is waited for.
        clear, end_with: See :func:`supervised`.
    """

    def __init__(
        self,
        child: int,
        note: _Note,
        room: memory.Memory | None,
        signals: set[signal.Signals],
        clear: Callable[[Path], None],
        end_with: Callable[[ModelyardError], NoReturn],
    ) -> None:
        self._clear, self._end_with = clear, end_with
        self._child, self._note, self._room, self._signals = child, note, room, signals
        self._told: tuple[int, float] | None = None
        self._family: list[int] = []
        self._counted = 0.0

    def wait(self) -> NoReturn:
        """Until it ends, or has to be ended."""
        pause = _STEP_S
        while True:
            # not sigtimedwait: interrupted (Ctrl-Z and fg) when its time is over, that of CPython
            # gives what nobody wrote, a SIGINT for example
            signal.setitimer(signal.ITIMER_REAL, pause)
            came = signal.sigwaitinfo(self._signals)
            if (status := self._ended()) is not None:
                self._end_as(status)
            if came.si_signo not in (signal.SIGCHLD, signal.SIGALRM):
                self._pass_on(came.si_signo)
            if (number := self._out_of_grace()) is not None:
                self._end_family()
                sys.exit(128 + number)
            if 0 < self._note.deadline() < time.monotonic():
                self._end_in_time()
            pause = self._watch_memory()

    def _ended(self) -> int | None:
        """The child's status where it has ended; others that came to us are taken leave of."""
        status = None
        with suppress(ChildProcessError):
            while True:
                pid, how = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                status = how if pid == self._child else status
        return status

    def _end_as(self, status: int) -> NoReturn:
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            sys.exit(code)
        self._end_family()
        if self._told is not None:  # before it could listen
            sys.exit(128 + self._told[0])
        number = signal.Signals(-code)
        if number in _CRASHES:
            hint = "It crashed in native code: a damaged file, or packages that don't go together."
        elif number == signal.SIGKILL:
            hint = "The system may have run out of memory."
        else:
            sys.exit(128 + number)
        self._end_with(
            MachineError(
                f"{self._doing()}: killed by {number.name}", code="process-ended", hint=hint
            )
        )

    def _pass_on(self, number: int) -> None:
        """Tells the child; Ctrl-C on a terminal has told it already, and it hears the first."""
        if self._told is None:
            self._told = number, time.monotonic() + GRACE
            with suppress(ProcessLookupError):
                os.kill(self._child, number)

    def _out_of_grace(self) -> int | None:
        """The signal that it was to end at, where it had its time."""
        if self._told is None or time.monotonic() < self._told[1]:
            return None
        return self._told[0]

    def _watch_memory(self) -> float:
        """Ends a family that takes too much; gives the seconds until the next look."""
        if self._room is None:
            return _FAR_S
        now = time.monotonic()
        if now - self._counted > _FAMILY_S:
            self._family, self._counted = memory.family(os.getpid()), now
        held = memory.taken(self._family)
        left = self._room.room(held)
        if left < 0:
            there = "it may take" if self._room.own == self._room.limit else "there is here"
            self._give_up(
                f"it had taken {_gigabytes(held)} of the {_gigabytes(self._room.limit)} of memory "
                f"that {there}",
                "Use fewer or smaller samples, or a machine with more memory. A limit of your own: "
                f"{memory.VARIABLE}=8G.",
            )
        return min(max(left / _QUICKEST, _STEP_S), _FAR_S)

    def _end_in_time(self) -> NoReturn:
        """Has a command that takes too long clean up, and ends it."""
        doing = self._doing()
        self._pass_on(signal.SIGTERM)
        while self._ended() is None and self._out_of_grace() is None:
            signal.sigtimedwait({signal.SIGCHLD}, _FAR_S)
        self._give_up("it took longer than its time limit", "--time-limit 0 is none.", doing)

    def _give_up(self, why: str, hint: str, doing: str = "") -> NoReturn:
        doing = doing or self._doing()
        self._end_family()
        self._end_with(
            MachineError(f"{doing}: ended, because {why}", code="process-ended", hint=hint)
        )

    def _doing(self) -> str:
        return self._note.doing() or "working"

    def _end_family(self) -> None:
        """Kills the child and all that came from it, waits until they are gone, and clears what it
        was making."""
        deadline = time.monotonic() + GRACE
        with suppress(ChildProcessError):
            while True:
                for pid in memory.family(os.getpid()):
                    if time.monotonic() < deadline and _clears(pid):
                        continue
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                if not os.waitpid(-1, os.WNOHANG)[0]:
                    time.sleep(0.005)
        if place := self._note.place():
            self._clear(Path(os.fsdecode(place)))
        if sys.stderr.isatty():  # as the child's progress would have left it
            print("\r\x1b[J\x1b[?25h", end="", file=sys.stderr, flush=True)


def _clears(pid: int) -> bool:
    with suppress(OSError):  # it is gone, or somebody else's
        return f"{CLEANER}=1".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def _gigabytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GB"
