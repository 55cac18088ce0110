"""Zip archives of models: none that comes to far more than it is."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Iterator

_DIRECTORY = 1 << 25
"""Bytes that an archive's list of members may have: half a million have so many."""
_SIZE = 5
"""Their place in what zipfile reads at an archive's end."""

_GROWTH, _SMALL = 200, 1 << 28
"""What unpacks to more than so many times its size, and is no longer small, isn't weights."""


def opened(path: Path) -> zipfile.ZipFile:
    """The archive; raises zipfile.BadZipFile, for one of too many members, too."""
    with path.open("rb") as stream:
        end = zipfile._EndRecData(stream)  # type: ignore[attr-defined]
    if end and end[_SIZE] > _DIRECTORY:
        raise zipfile.BadZipFile(f"its list of members has {end[_SIZE]:,} bytes")
    return zipfile.ZipFile(path)


def grown(archive: zipfile.ZipFile) -> Iterator[str]:
    """Members that unpack to far more than they are, with what is wrong with them."""
    for info in archive.infolist():
        if grows(info.file_size, info.compress_size):
            yield f"{info.filename}: it unpacks to {info.file_size:,} bytes"


def grows(size: int, stored: int) -> bool:
    """Whether so many bytes come out of far fewer."""
    return size > _SMALL and size > _GROWTH * max(stored, 1)
