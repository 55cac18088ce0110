"""A regular file is asked for wherever the user names one: a pipe may wait for ever, a device has
no end."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from converter.errors import UsageError

_KINDS = {
    stat.S_IFIFO: "a pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

_LOOKED_AT = 10_000
"""Files of a folder that are looked at: those of a model are a few."""


def require_regular(path: Path, named: str = "") -> None:
    """Refuses what is neither a file nor a folder; what isn't there is for others to say.

    Args:
        path: What is to be read, links followed.
        named: How messages call it, where that isn't its name.

    Raises:
        UsageError: It is a pipe, a socket or a device.
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except (OSError, ValueError):
        return
    if kind is not None:
        raise UsageError(
            f"{named or path} is {kind}, not a file",
            code="file-access",
            hint="Files are read more than once, and in any order: write it to disk first.",
        )


def require_regular_inside(folder: Path) -> None:
    """The same of what lies in the folder of a model; raises UsageError."""
    for path in islice(_below(folder), _LOOKED_AT):
        require_regular(path)


def _below(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)
