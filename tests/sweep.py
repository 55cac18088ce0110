"""Exhaustive sweeps, and tests with many cases: all cases in ``make test-all``, a share in CI.

``MODELYARD_SWEEP=8`` takes an eighth, by the hash of a case's name and of the commit: the same in
every run of one commit, and another with each. A test with :data:`MANY` cases or more is such a
sweep; sweeps that are one test each call :func:`taken` or :func:`piece` themselves.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

SHARE = int(os.environ.get("MODELYARD_SWEEP", "1"))
"""One case in so many is taken."""

MANY = 4
"""A test with so many cases is a sweep: of its cases the share is taken, and at least one."""


@cache
def seed() -> str:
    """The commit's sha; empty where there is none, or every case is taken."""
    if SHARE == 1:
        return ""
    line = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    return subprocess.run(line, capture_output=True, text=True).stdout.strip()


def _number(name: str, salt: str | None = None) -> int:
    digest = sha256(f"{seed() if salt is None else salt}{name}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def taken(name: str, share: int = SHARE, salt: str | None = None) -> bool:
    """Whether a case is among the share."""
    return _number(name, salt) % share == 0


def share_of(tests: Sequence[str], share: int = SHARE, salt: str | None = None) -> set[str]:
    """The tests to run: all cases of a test with few, of one with :data:`MANY` or more the share.

    Args:
        tests: pytest's node ids, as ``FILE::TEST[CASE]``.
        share: One case in so many.
        salt: What the choice depends on besides the names; the commit, if None.
    """
    cases = defaultdict(list)
    for test in tests:
        cases[test.partition("[")[0]].append(test)
    chosen: set[str] = set()
    for group in cases.values():
        few = len(group) < MANY
        kept = [test for test in group if few or taken(test, share, salt)]
        chosen.update(kept or [min(group, key=lambda test: _number(test, salt))])
    return chosen


def asked(request: pytest.FixtureRequest, parameter: str) -> list[str]:
    """What of a parameter the tests of a module that run now have, for a fixture that makes all of
    them at once."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    ours = (item for item in items if item.path == request.path and hasattr(item, "callspec"))
    found = (item.callspec.params.get(parameter) for item in ours)
    return sorted({value for value in found if isinstance(value, str)})


def at_least(floor: int, share: int = 1) -> float:
    """How many of a share pass where ``floor`` of one case in ``share`` do, less four standard
    deviations of what chance picks (a binomial distribution's, at most the square root)."""
    expected = floor * share / max(share, SHARE)
    return floor if SHARE == 1 else expected - 4 * math.sqrt(expected)


def piece(start: int, stop: int) -> str:
    """``A:B``: the part of a range of seeds that is the share's."""
    length = -(-(stop - start) // SHARE)
    first = start + (int(seed()[:8] or "0", 16) % SHARE) * length
    return f"{first}:{min(first + length, stop)}"
