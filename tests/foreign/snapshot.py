"""What a folder holds, to see afterwards that nothing in it was touched."""

from __future__ import annotations

from pathlib import Path


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of the last change of everything under ``folder``, by relative name."""
    found = {}
    for path in folder.rglob("*"):
        stat = path.lstat()
        found[str(path.relative_to(folder))] = (stat.st_size, stat.st_mtime_ns)
    return found
