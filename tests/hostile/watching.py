"""Runs a command as a user does, and says what it took: seconds, and memory of all processes."""

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.acceptance.cli import COMMAND
from tests.faults import MARK, require_ended

MB = 1 << 20


@dataclass(frozen=True)
class Took:
    """What a command gave back, and took.

    Attributes:
        code: Its exit code.
        err: What it said on stderr.
        seconds: Until its end.
        peak: Most bytes of anonymous memory that its processes had together.
    """

    code: int
    err: str
    seconds: float
    peak: int


def watched(
    *args: str | Path,
    cwd: Path,
    limit: str = "",
    meanwhile: Callable[[psutil.Process], None] = lambda process: None,
) -> Took:
    """Runs ``modelyard ARGS`` in ``cwd`` to its end, after which nothing of it may run any more.

    Args:
        limit: MODELYARD_MEMORY_LIMIT.
        meanwhile: Called again and again with the command's process.
    """
    temporary, said = cwd / ".temporary", cwd / ".said"
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, "TMPDIR": str(temporary), MARK: str(cwd)}
    env |= {"MODELYARD_MEMORY_LIMIT": limit} if limit else {}
    begun, peak = time.monotonic(), 0
    with said.open("wb") as stderr:
        process = psutil.Popen(
            [str(COMMAND), *map(str, args)],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        while process.poll() is None:
            peak = max(peak, _taken(process))
            meanwhile(process)
            time.sleep(0.02)
    seconds = time.monotonic() - begun
    require_ended(cwd)
    return Took(process.returncode, said.read_text(), seconds, peak)


def _taken(process: psutil.Process) -> int:
    total = 0
    with suppress(psutil.Error):
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error):
                info = each.memory_info()
                total += info.rss - info.shared  # mapped files count as shared
    return total
