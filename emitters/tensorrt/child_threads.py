"""In the build's process: threads made to run in the same order every time.

TensorRT-RTX hands parts of a large graph to threads of its own, and numbers and orders what they
make as it comes. On one core, where a thread that wakes up doesn't interrupt the one that runs,
they come in the same order; nearly all of its work is done by one thread anyway.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_ALL: set[int] = set()
"""The cores that this process had at first."""


def one_core() -> None:
    """Keeps this thread, and those that it starts, on the core that it is on."""
    _ALL.update(os.sched_getaffinity(0))
    with suppress(OSError):  # a sandbox that forbids it: then threads come as they come
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.sched_setaffinity(0, {ctypes.CDLL(None).sched_getcpu()})


def all_cores() -> None:
    """Lets this thread run on all of the process's cores again."""
    with suppress(OSError):
        os.sched_setaffinity(0, _ALL or os.sched_getaffinity(0))
