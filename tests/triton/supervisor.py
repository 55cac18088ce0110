"""Run one command, and see to it that it does not outlive the test process.

This runs as a small process of its own between the two, because nothing inside a test process
can clean up after that process has been killed. It uses the standard library only, and starts
no thread, so that the kernel's parent-death signal (which watches the starting *thread*) is safe
to rely on for the command, here called the server.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
_INTERVAL_S = 0.1
_SHARED_MEMORY = Path("/dev/shm")


def supervised(
    command: list[str], *, folder: Path, grace_s: float = 1.0, shm_prefix: str = ""
) -> list[str]:
    """The command line that runs `command` under supervision on behalf of this process.

    Its standard output is the process id of `command`, whose own output goes to standard error.
    It removes `folder` only where this process did not live to do so.
    """
    supervisor = [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(os.getpid())]
    return [*supervisor, str(grace_s), shm_prefix, str(folder), *command]


def supervise(owner: int, grace_s: float, shm_prefix: str, folder: Path, command: list[str]) -> int:
    """Run `command` until it ends, a signal asks for its end, or the process `owner` is gone."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    libc = ctypes.CDLL(None, use_errno=True)
    # Helper processes that lose the server become this process's to wait for.
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def tie_to_supervisor() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())

    # The server's helper processes stay in its process group, apart from this one's.
    server = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=tie_to_supervisor,
        process_group=0,
    )
    print(server.pid, flush=True)
    os.close(sys.stdout.fileno())
    _wait_for_a_reason_to_end(server.pid, owner)
    _end_group(server, grace_s)
    if shm_prefix:
        _remove_shared_memory(shm_prefix)
    if os.getppid() != owner:
        shutil.rmtree(folder, ignore_errors=True)
    return server.returncode


def _remove_shared_memory(prefix: str) -> None:
    """Remove the regions that a killed server could not give back."""
    for region in _SHARED_MEMORY.glob(f"{prefix}*"):
        region.unlink(missing_ok=True)


def _wait_for_a_reason_to_end(server: int, owner: int) -> None:
    while not _has_ended(server) and os.getppid() == owner:
        received = signal.sigtimedwait(_WATCHED, _INTERVAL_S)
        if received is not None and received.si_signo != signal.SIGCHLD:
            return


def _end_group(server: subprocess.Popen[bytes], grace_s: float) -> None:
    if not _has_ended(server.pid):
        os.kill(server.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while not _has_ended(server.pid) and time.monotonic() < deadline:
        signal.sigtimedwait({signal.SIGCHLD}, _INTERVAL_S)
    # The server is not reaped yet, so that its number cannot have passed to another group.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-server.pid, 0)


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


if __name__ == "__main__":
    sys.exit(
        supervise(
            int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), sys.argv[5:]
        )
    )
