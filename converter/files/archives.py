"""Zip archives that users name: `parsers/worker/archive.py` is the same for workers."""

from __future__ import annotations

import zipfile
from pathlib import Path

_DIRECTORY = 1 << 25
"""Bytes that an archive's list of members may have: half a million have so many."""
_SIZE = 5
"""Their place in what zipfile reads at an archive's end."""


def opened(path: Path) -> zipfile.ZipFile:
    """The archive; raises zipfile.BadZipFile, for one of too many members, too."""
    with path.open("rb") as stream:
        end = zipfile._EndRecData(stream)  # type: ignore[attr-defined]
    if end and end[_SIZE] > _DIRECTORY:
        raise zipfile.BadZipFile(f"its list of members has {end[_SIZE]:,} bytes")
    return zipfile.ZipFile(path)
