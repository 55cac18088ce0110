"""What a server on this machine takes: CPU time and memory of its processes, from Linux's /proc."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from converter.runtime import memory

_EVERY_S = 0.2
_LISTENS = "0A"  # include/net/tcp_states.h
_CLOCK = os.sysconf("SC_CLK_TCK")


def process_at(host: str, port: int) -> int | None:
    """The process that listens on a port of this machine; None where it isn't here, or isn't ours
    to see."""
    if not _is_here(host):
        return None
    nodes = {f"socket:[{node}]" for name in ("tcp", "tcp6") for node in _listening(name, port)}
    found = []
    for place in Path("/proc").glob("[0-9]*/fd/*") if nodes else ():
        with suppress(OSError):
            if str(place.readlink()) in nodes:
                found.append(int(place.parts[2]))
    return min(found, default=None)  # those that it was handed to came later


def _is_here(host: str) -> bool:
    """Whether an address is one of this machine's: only such can be listened on."""
    with suppress(OSError):
        family, kind, *_, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(place)
            return True
    return False


def _listening(name: str, port: int) -> list[str]:
    """The inodes of sockets that listen: proc(5), /proc/net/tcp."""
    found = []
    with suppress(OSError):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rsplit(":", 1)[1], 16) == port:
                found.append(fields[9])
    return found


class Observed:
    """Watches a process and all that came from it, while the block lasts.

    Attributes:
        cpu_s: CPU seconds that they took.
        memory: The most resident bytes that they had together, shared pages counted in each.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._stop = pid, threading.Event()
        self.cpu_s, self.memory = 0.0, 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Observed:
        self._before = self._cpu()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.cpu_s = self._cpu() - self._before

    def _watch(self) -> None:
        while True:
            self.memory = max(self.memory, self.resident())
            if self._stop.wait(_EVERY_S):
                return

    def resident(self) -> int:
        """Bytes that they have now."""
        pages = 0
        for pid in (self._pid, *memory.family(self._pid)):
            with suppress(OSError):
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _cpu(self) -> float:
        ticks = 0
        for pid in (self._pid, *memory.family(self._pid)):
            with suppress(OSError):  # behind the name, which may hold spaces: proc(5), stat
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / _CLOCK
