"""How much memory there is here, and how much a family of processes has taken.

What counts as taken is anonymous memory that is resident: pages of mapped files, as a model's
weights are, the system takes back when it needs them. All figures are bytes, read from Linux's
``/proc`` and its control groups (its ``Documentation/admin-guide``: ``cgroup-v1/memory``,
``cgroup-v2``).
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "MODELYARD_MEMORY_LIMIT"
"""The environment variable that sets a limit of the user's own: ``8G``, ``500M``, or bytes."""

_RESERVE = 512 << 20
"""Bytes that are left free at most; less where there is little: a sixteenth."""

_SHARE = 4
"""A family that holds less than this part of the memory isn't what uses it up."""

_MUCH = 512 << 20
"""Bytes from which a process looks what it can give back: without a large model it has less."""

_PAUSE = 9
"""How many times as long as it looked a process lets pass before it looks again: in one with many
objects that takes a while, and sessions are closed often."""

_next = 0.0
"""When this process may look again, by the monotonic clock."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_GROUPS, _OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


@dataclass(frozen=True)
class _Group:
    """A control group with a limit: its files, and what of its use is only cached."""

    limit: int
    used: Path
    details: Path
    cached: tuple[str, ...]

    def left(self) -> int:
        """What it may still take."""
        cache = sum(_fields(self.details).get(name, 0) for name in self.cached)
        return self.limit - (int(self.used.read_text()) - cache)


@dataclass(frozen=True)
class Memory:
    """What a family of processes may take.

    Attributes:
        limit: The machine's memory, a control group's or the user's limit: the least of them.
        own: The user's limit; None where there is none.
    """

    limit: int
    own: int | None
    _groups: tuple[_Group, ...] = ()

    @classmethod
    def here(cls) -> Memory | None:
        """As it is where this runs; None where the system doesn't say.

        Raises:
            ValueError: The user's limit is no size.
        """
        own = size(text) if (text := os.environ.get(VARIABLE)) else None
        total = _fields(Path("/proc/meminfo")).get("MemTotal")
        if total is None:
            return None
        groups = tuple(_groups())
        limits = [total, *(group.limit for group in groups), *([own] if own else [])]
        return cls(min(limits), own, groups)

    @property
    def reserve(self) -> int:
        """What has to stay free."""
        return min(self.limit // 16, _RESERVE)

    def room(self, taken: int) -> int:
        """How much more a family that has ``taken`` so much may take; below 0 it has to end."""
        machine = _fields(Path("/proc/meminfo"))
        lefts = [machine.get("MemAvailable", self.limit) + machine.get("SwapFree", 0)]
        with suppress(OSError, ValueError):
            lefts += [group.left() for group in self._groups]
        alone = self.limit - taken - self.reserve
        if taken < self.limit // _SHARE:
            return alone  # where there is little left, others have it
        return min(alone, min(lefts) - self.reserve)


def size(text: str) -> int:
    """The bytes of ``8G``, ``1.5 GB``, ``500m``; units are powers of 1024. Raises ValueError."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if found is None or not (count := int(float(found[1]) * _UNITS[found[2].upper()])):
        raise ValueError(f"{text!r} isn't a size: write 8G, 500M, or a number of bytes")
    return count


def taken(pids: list[int]) -> int:
    """The resident anonymous memory of these processes; those that have ended have none."""
    total = 0
    for pid in pids:
        total += _fields(Path(f"/proc/{pid}/status")).get("RssAnon", 0)
    return total


def give_back() -> None:
    """Gives back what nothing uses any more, where this process has taken much.

    Graphs are cycles, and a large model, or what is mapped for it, goes with too few objects for
    Python's collector to look by itself; and glibc keeps pages between those that are in use
    (malloc_trim(3)).
    """
    global _next
    begun = time.monotonic()
    if begun < _next or _fields(Path("/proc/self/status")).get("VmRSS", 0) <= _MUCH:
        return
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    ended = time.monotonic()
    _next = ended + _PAUSE * (ended - begun)


def family(pid: int) -> list[int]:
    """The processes that come from ``pid``, without itself."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for born in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):  # the thread has ended
                children = [int(number) for number in born.read_text().split()]
                found += children
                waiting += children
    return found


def _fields(path: Path) -> dict[str, int]:
    """The lines ``name: 12 kB`` or ``name 12`` of a file of the system's; none if there is none."""
    fields = {}
    with suppress(OSError):
        for line in path.read_text().splitlines():
            name, *value = line.replace(":", " ").split()
            if value and value[0].isdecimal():
                fields[name] = int(value[0]) * (1024 if value[-1] == "kB" else 1)
    return fields


def _groups() -> Iterator[_Group]:
    """The control groups that this process is in, and those around them, that have a limit."""
    with suppress(OSError):
        for line in _OWN_GROUPS.read_text().splitlines():
            number, controllers, inside = line.split(":", 2)
            if number == "0":
                names = ("memory.max", "memory.current", "inactive_file", "active_file")
                yield from _limited(_GROUPS, inside, *names)
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file",
                         "total_active_file")  # fmt: skip
                yield from _limited(_GROUPS / "memory", inside, *names)


def _limited(root: Path, inside: str, limit: str, used: str, *cached: str) -> Iterator[_Group]:
    """The groups on the way; in a container, its own may be the root whatever it is called."""
    folder = root / inside.lstrip("/")
    for place in (folder, *folder.parents):
        if not place.is_relative_to(root):
            return
        with suppress(OSError, ValueError):  # "max": none
            yield _Group(
                int((place / limit).read_text()), place / used, place / "memory.stat", cached
            )
