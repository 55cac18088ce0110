"""Exhaustive sweeps: all of their cases in ``make test-all``, one in so many in CI.

``MODELYARD_SWEEP=8`` takes an eighth, by the hash of a case's name and of the commit: the same in
every run of one commit, and another with each.
"""

from __future__ import annotations

import math
import os
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path

SHARE = int(os.environ.get("MODELYARD_SWEEP", "1"))
"""One case in so many is taken."""


@cache
def seed() -> str:
    """The commit's sha; empty where there is none, or every case is taken."""
    if SHARE == 1:
        return ""
    line = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    return subprocess.run(line, capture_output=True, text=True).stdout.strip()


def taken(name: str, share: int = SHARE, salt: str | None = None) -> bool:
    """Whether a case is among the share."""
    digest = sha256(f"{seed() if salt is None else salt}{name}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % share == 0


def at_least(floor: int) -> float:
    """How many of a share pass where ``floor`` of all do, less four standard deviations of what
    chance picks (a binomial distribution's, at most the square root)."""
    return floor if SHARE == 1 else floor / SHARE - 4 * math.sqrt(floor / SHARE)


def piece(start: int, stop: int) -> str:
    """``A:B``: the part of a range of seeds that is the share's."""
    length = -(-(stop - start) // SHARE)
    first = start + (int(seed()[:8] or "0", 16) % SHARE) * length
    return f"{first}:{min(first + length, stop)}"
