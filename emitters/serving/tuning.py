"""Values that settings of servers are tried at."""

from __future__ import annotations

import math
from collections.abc import Iterable

from converter.machine import describe_machine

DELAYS = (0, 100, 500, 1000, 2000, 5000)
"""Microseconds that a request waits for others."""


def cores() -> int:
    """Those of this machine that may be used."""
    machine = describe_machine()
    return max(1, math.ceil(machine.usable or machine.cores or 1))


def powers(largest: int) -> list[int]:
    """Powers of two up to a number, and that number."""
    return sorted({*(2**power for power in range(largest.bit_length())), largest})


def numbers(values: Iterable[int], now: int) -> list[int]:
    """Values in order, with the one that a package has."""
    return sorted({*values, now})
