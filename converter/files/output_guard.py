"""What the tool made itself: nothing else is ever replaced or removed.

An output folder is known by its manifest, which names every file by its sha256 and says what
scripts among them write later. A folder that the tool works in is known by a mark.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from converter.files.digest import file_digest

NAME = "manifest.json"
REPORT = ("report.html", "report.json")
STEPS = "steps"
"""The folder of the models between steps, where they were asked for."""

MARK = ".modelyard"
_MARKED = "Made by modelyard while it works; it may be deleted when none runs.\n"

SHOWN = 5
"""Names in a message before the rest is counted."""


def mark(folder: Path) -> None:
    """Makes a folder one that may be deleted with all that is in it."""
    path = folder / MARK
    if not path.is_file() or path.read_text() != _MARKED:  # never half a mark over a whole one
        path.write_text(_MARKED)


def is_marked(folder: Path) -> bool:
    """Whether :func:`mark` was here; killed there, it left an empty file and nothing else."""
    path = folder / MARK
    if not path.is_file() or path.is_symlink():
        return False
    return path.read_bytes() == _MARKED.encode() or (
        path.stat().st_size == 0 and len([*folder.iterdir()]) == 1
    )


def remove_marked(folder: Path) -> None:
    """Deletes a marked folder, the mark last: what a killed process left of it is still known."""
    for item in folder.iterdir():
        if item.name != MARK:
            remove(item)
    shutil.rmtree(folder)


def remove(path: Path) -> None:
    """Deletes a file, a link (not what it leads to) or a folder."""
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def is_ours(folder: Path) -> bool:
    """Whether a folder has a manifest of ours, of whatever version."""
    return _Known.of(folder) is not None


def seal_of(text: str) -> str:
    """The seal of a manifest, from its text with an empty one: who edits the file breaks it."""
    return hashlib.sha256(text.encode()).hexdigest()


def _is_sealed(text: str) -> bool:
    seal = json.loads(text)["measured"]["seal"]
    return bool(seal_of(text.replace(f'"seal": "{seal}"', '"seal": ""')) == seal)


def digests(folder: Path) -> set[str]:
    """The sha256 of every file that an output folder's manifest names; none where it has none."""
    known = _Known.of(folder)
    return known.digests if known else set()


def is_failed_report(folder: Path) -> bool:
    """Whether a folder holds what a run that missed a gate left, nothing else, and unchanged."""
    known = _Known.of(folder)
    kept = {NAME, *REPORT, STEPS, *_CACHES}
    return (
        known is not None
        and known.verdict == "failed"
        and all(item.name in kept for item in folder.iterdir())
        and not strange(folder)
    )


def strange(folder: Path) -> list[str]:
    """What in an output folder the tool didn't make, or was changed since, by its path there.

    Empty folders don't count, nor do caches that systems put into any folder.

    Raises:
        OSError: Something in it can't be read.
    """
    known = _Known.of(folder)
    return [name for name in _files(folder) if known is None or not known.has(folder, name)]


def listed(names: list[str]) -> str:
    """A few of the names, and how many more there are."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


_CACHES = {"__pycache__", ".DS_Store"}


def _files(folder: Path) -> Iterator[str]:
    """Everything under a folder that isn't a folder itself, nor a cache; and folders that can't
    be emptied."""

    def fail(error: OSError) -> None:
        raise error

    for place, folders, files in os.walk(folder, onerror=fail):
        here = Path(place).relative_to(folder)
        if (folders or files) and not os.access(place, os.W_OK | os.X_OK):
            yield here.as_posix()
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in sorted([*files, *links]):
            cache = name == ".DS_Store" or (here.name == "__pycache__" and ".pyc" in name)
            if not cache or Path(place, name).is_symlink():
                yield (here / name).as_posix()


class _Known:
    """The files that a manifest knows."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        measured, scripts = manifest.get("measured", {}), manifest.get("scripts", {})
        self._sealed = "seal" in measured
        self.verdict = manifest.get("results", {}).get("verdict")
        records = [*manifest["files"], *measured.get("files", ())]
        self._files: dict[str, str] = {item["path"]: item["sha256"] for item in records}
        self.digests = set(self._files.values())
        self._written, self._moved = (
            [str(PurePosixPath(path)) for path in scripts.get(key, ())] for key in ("write", "move")
        )

    @classmethod
    def of(cls, folder: Path) -> _Known | None:
        """Of the manifest in an output folder; None where there is none of ours."""
        try:
            found = json.loads((folder / NAME).read_bytes())
            return cls(found) if found["tool"].startswith("modelyard ") else None
        except (FileNotFoundError, NotADirectoryError, ValueError, LookupError, TypeError,
                AttributeError, RecursionError):  # fmt: skip
            return None

    def has(self, folder: Path, name: str) -> bool:
        path = folder / name
        if path.is_symlink() or not path.is_file():
            return False
        if name == NAME:
            return not self._sealed or _is_sealed(path.read_bytes().decode(errors="replace"))
        if name in REPORT and not self._sealed:  # earlier versions don't name them
            return True
        if any(_matches(name, pattern) for pattern in self._moved):
            return file_digest(path) in self.digests
        if name in self._files:
            return file_digest(path) == self._files[name]
        return any(_matches(name, pattern) for pattern in self._written)


def _matches(name: str, pattern: str) -> bool:
    """Whether a path is in the pattern's folder, and has a name like its."""
    path, wanted = PurePosixPath(name), PurePosixPath(pattern)
    return path.parent == wanted.parent and fnmatchcase(path.name, wanted.name)
