"""Times whole commands in turns, and samples the memory of a process tree."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Ratio:
    """Wall seconds of two commands, run in turns."""

    ours: list[float]
    theirs: list[float]

    @property
    def medians(self) -> tuple[float, float]:
        """Median seconds of each."""
        return statistics.median(self.ours), statistics.median(self.theirs)

    @property
    def ratio(self) -> float:
        """Our median over theirs."""
        ours, theirs = self.medians
        return ours / theirs


def wall_seconds(argv: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> float:
    """How long a command takes, from start to end; raises where it fails."""
    start = time.perf_counter()
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{argv} ended with {done.returncode}:\n{done.stderr}")
    return seconds


def in_turns(
    ours: Sequence[str],
    theirs: Sequence[str],
    cwd: Path,
    rounds: int,
    unmeasured: int = 1,
    cache: Path | None = None,
) -> Ratio:
    """Runs both ``rounds`` times in turns, after ``unmeasured`` rounds that don't count.

    With ``cache``, that is modelyard's cache folder, and no step's result is in it beforehand.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    env = {"MODELYARD_CACHE": str(cache)} if cache else {}
    for number in range(unmeasured + rounds):
        for argv, times in zip((ours, theirs), taken, strict=True):
            if cache:
                shutil.rmtree(cache / "steps", ignore_errors=True)
            seconds = wall_seconds(argv, cwd, env)
            if number >= unmeasured:
                times.append(seconds)
    return Ratio(*taken)


@dataclass(frozen=True)
class Memory:
    """Largest sums over a process tree while a command ran, in bytes."""

    anonymous: int
    resident: int
    samples: int


def peak_memory(argv: Sequence[str], cwd: Path, every: float = 0.02) -> Memory:
    """Runs a command and samples the anonymous and resident memory of its whole process tree.

    Anonymous memory is ``Anonymous`` of ``/proc/PID/smaps_rollup``: what files can't give back.
    """
    process = subprocess.Popen(argv, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    anonymous = resident = samples = 0
    root = psutil.Process(process.pid)
    while process.poll() is None:
        sums = [_rollup(one) for one in _tree(root)]
        anonymous = max(anonymous, sum(item[0] for item in sums))
        resident = max(resident, sum(item[1] for item in sums))
        samples += 1
        time.sleep(every)
    assert process.stderr is not None
    words = process.stderr.read().decode()
    process.stderr.close()
    if process.returncode:
        raise RuntimeError(f"{argv} ended with {process.returncode}:\n{words}")
    return Memory(anonymous, resident, samples)


def _tree(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _rollup(process: psutil.Process) -> tuple[int, int]:
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    except OSError:  # it has ended meanwhile
        return 0, 0
    fields = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return tuple(int(fields[name].split()[0]) * 1024 for name in ("Anonymous", "Rss"))  # type: ignore[return-value]
