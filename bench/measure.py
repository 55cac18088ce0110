"""Times whole commands in turns, samples the memory of a process tree, writes parts of pages."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

from converter.files.cache_root import cache_root
from converter.machine import describe_machine


class Row:
    """One figure of a page: what, what was seen, what was aimed for; None where nothing was.

    Args:
        what: The figure's name.
        seen: What was measured, with its unit.
        target: What was aimed for; empty where nothing was.
        met: Whether that is met; None where nothing was aimed for.
    """

    def __init__(self, what: str, seen: str, target: str, met: bool | None) -> None:
        self.cells = (what, seen, target, {True: "yes", False: "**no**", None: ""}[met])

    def __str__(self) -> str:
        return f"| {' | '.join(self.cells)} |"


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
    """How long a command takes, from start to end; raises where it fails.

    Args:
        argv: The command.
        cwd: Where it runs.
        env: Variables beside our own.
    """
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
    ours: Sequence[str], theirs: Sequence[str], cwd: Path, rounds: int, unmeasured: int = 1
) -> Ratio:
    """Runs two commands in turns.

    Args:
        ours: Our command.
        theirs: Theirs.
        cwd: Where both run.
        rounds: How often each is measured.
        unmeasured: Rounds before those, which don't count.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(unmeasured + rounds):
        for argv, times in zip((ours, theirs), taken, strict=True):
            seconds = wall_seconds(argv, cwd)
            if number >= unmeasured:
                times.append(seconds)
    return Ratio(*taken)


def cold_cache(folder: Path) -> None:
    """Has the commands that follow begin with a cache of their own, in ``folder``: it holds the
    packages that were fetched, and no results."""
    cache = folder / "cache"
    fetched = [(cache_root() / part).resolve() for part in ("packages", "zoo")]  # of links, too
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir()
    for kept in fetched:
        kept.mkdir(parents=True, exist_ok=True)
        (cache / kept.name).symlink_to(kept)
    os.environ["MODELYARD_CACHE"] = str(cache)


@dataclass(frozen=True)
class Memory:
    """Largest sums over a process tree while a command ran, in bytes.

    Attributes:
        anonymous: What files can't give back.
        resident: What is in memory; a page that several processes share counts once.
        samples: How often it was looked.
        seconds: Wall time; looking costs some of it.
    """

    anonymous: int
    resident: int
    samples: int
    seconds: float


def peak_memory(argv: Sequence[str], cwd: Path, every: float = 0.02) -> Memory:
    """Runs a command and samples the anonymous and resident memory of its whole process tree.

    They are ``Anonymous`` and ``Pss`` of ``/proc/PID/smaps_rollup`` (Linux, proc_pid_smaps(5)).

    Args:
        argv: The command.
        cwd: Where it runs.
        every: Seconds from one sample to the next.

    Raises:
        RuntimeError: The command failed.
    """
    start = time.perf_counter()
    process = subprocess.Popen(argv, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    anonymous = resident = samples = 0
    root = psutil.Process(process.pid)
    while process.poll() is None:
        sums = [_rollup(one) for one in _tree(root)]
        anonymous = max(anonymous, sum(item[0] for item in sums))
        resident = max(resident, sum(item[1] for item in sums))
        samples += 1
        time.sleep(every)
    seconds = time.perf_counter() - start
    assert process.stderr is not None
    words = process.stderr.read().decode()
    process.stderr.close()
    if process.returncode:
        raise RuntimeError(f"{argv} ended with {process.returncode}:\n{words}")
    return Memory(anonymous, resident, samples, seconds)


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
    return tuple(int(fields[name].split()[0]) * 1024 for name in ("Anonymous", "Pss"))  # type: ignore[return-value]


def where(*packages: str) -> str:
    """The machine, and the versions of Modelyard and of packages, for below a table."""
    facts = asdict(describe_machine())
    machine = ", ".join(f"{key} {value}" for key, value in facts.items() if value)
    versions = ", ".join(f"{name} {version(name)}" for name in ("modelyard", *packages))
    return f"Machine: {machine}.\nVersions: {versions}."


def write_section(page: Path, head: str, text: str) -> None:
    """Puts a section into a page, in its place or at the page's end.

    Args:
        page: The file.
        head: The section's heading: ``## ...``.
        text: What is below it.
    """
    section, whole = f"{head}\n\n{text.strip()}\n", page.read_text()
    found = _section(whole, head)
    if found is None:
        page.write_text(f"{whole.rstrip()}\n\n{section}")
        return
    rest = whole[found.end() :]
    page.write_text(whole[: found.start()] + section + ("\n" + rest if rest else ""))


def read_section(page: Path, head: str) -> str:
    """What stands below the heading ``head``; empty where there is no such page or heading."""
    found = _section(page.read_text(), head) if page.exists() else None
    return found[1].strip() if found else ""


def _section(text: str, head: str) -> re.Match[str] | None:
    return re.search(rf"^{re.escape(head)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
