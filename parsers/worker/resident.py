"""How much memory this process holds, phase by phase.

Linux tells it: `VmRSS` and `VmHWM` of /proc/self/status, and `clear_refs`, which has the largest
resident size begin anew (proc(5)). Other systems tell no phase of its own:
nothing is measured there.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Dict, List

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_FORGET_PEAK = "5"
_LEAST = 3


class Phases:
    """What was resident in each phase, in order.

    `told` has, of each, its name, the bytes `resident` at its end, and the most there were in it
    (`peak`). It is empty where the system doesn't tell.
    """

    def __init__(self) -> None:
        self.told: List[Dict[str, Any]] = []

    def end(self, name: str) -> None:
        """A phase is over; the next begins."""
        try:
            lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        except OSError:
            return
        resident, peak = (int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
        self.told.append({"name": name, "resident": resident, "peak": max(resident, peak)})
        with suppress(OSError):  # the largest since the process began, then
            _CLEAR.write_text(_FORGET_PEAK)


def repeat(call: Callable[[], object], seconds: float) -> int:
    """Calls again and again, for so long and at least three times; gives how often."""
    count, end = 0, time.perf_counter() + seconds
    while count < _LEAST or time.perf_counter() < end:
        call()
        count += 1
    return count


def measure(open_model: Callable[[], Callable[[], object]], seconds: float) -> List[Dict[str, Any]]:
    """The phases of a model that is opened, run once, and run for so long.

    `open_model` gives what runs it. All that isn't the model's has to be loaded before.
    """
    phases = Phases()
    phases.end("start")
    run = open_model()
    phases.end("open")
    run()
    phases.end("first run")
    repeat(run, seconds)
    phases.end("steady")
    return phases.told
