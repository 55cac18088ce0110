"""Keeps what steps made, by the hash of everything that can change it.

An entry is a folder, written beside its place and renamed into it, so that one is whole
or not there. The cache lives in ``MODELYARD_CACHE``, else ``XDG_CACHE_HOME/modelyard``,
else ``~/.cache/modelyard``; anything in it may be deleted at any time.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

LIMIT_BYTES = 20_000_000_000
"""Above this the entries unused for longest go."""

LEFT_AFTER = 86_400
"""Seconds after which what was begun and not finished counts as left behind."""


def cache_root() -> Path:
    """The folder of everything that can be made or fetched again."""
    own = os.environ.get("MODELYARD_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "modelyard"


class Cache:
    """Folders by key under ``<root>/steps``; with ``enabled=False`` nothing is kept or found."""

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled
        self._folder = cache_root() / "steps"

    def find(self, key: str) -> Path | None:
        """The entry of ``key``, marked as used now; None where there is none."""
        entry = self._place(key)
        if not self._enabled or not entry.is_dir():
            return None
        os.utime(entry)
        return entry

    def drop(self, key: str) -> None:
        """Deletes the entry of ``key``, which turned out to be damaged."""
        shutil.rmtree(self._place(key), ignore_errors=True)

    @contextmanager
    def adding(self, key: str) -> Iterator[Path | None]:
        """An empty folder that becomes the entry of ``key`` when the block ends well.

        Gives None where the cache is off. An entry that has come to be meanwhile is kept.
        """
        if not self._enabled:
            yield None
            return
        place = self._place(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".adding-", dir=place.parent) as made:
            folder = Path(made) / "entry"
            folder.mkdir()
            yield folder
            if not place.exists():
                folder.rename(place)

    def remember(self, key: str, value: Any) -> None:
        """Keeps a JSON value under ``key``, replacing what was there."""
        if not self._enabled:
            return
        place = self._note(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=place.parent, prefix=".adding-", delete=False
        ) as file:
            json.dump(value, file)
        Path(file.name).replace(place)

    def recall(self, key: str) -> Any:
        """The JSON value kept under ``key``, or None."""
        place = self._note(key)
        if not self._enabled or not place.is_file():
            return None
        return json.loads(place.read_text())

    def _place(self, key: str) -> Path:
        return self._folder / key[:2] / key

    def _note(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    # -- housekeeping --------------------------------------------------------------

    def trim(self, limit: int = LIMIT_BYTES) -> int:
        """Deletes the entries unused for longest until all fit in ``limit`` bytes; how many."""
        entries = sorted(self._entries(), key=_last_used)
        sizes = {entry: _size(entry) for entry in entries}
        total = sum(sizes.values())
        gone = 0
        for entry in entries:
            if total <= limit:
                break
            total -= sizes[entry]
            shutil.rmtree(entry, ignore_errors=True)  # another process may be at it too
            gone += 1
        return gone

    def _entries(self) -> list[Path]:
        """What is kept, and what a process that was killed left half made; not what one makes."""
        young = time.time() - LEFT_AFTER
        return [
            entry
            for entry in self._folder.glob("??/*")
            if entry.is_dir() and not (entry.name.startswith(".") and _last_used(entry) > young)
        ]


def usage() -> dict[str, tuple[int, int]]:
    """For each part of the cache: how many files it has, and bytes."""
    root = cache_root()
    parts = sorted(part for part in root.iterdir() if part.is_dir()) if root.is_dir() else []
    counted = {part.name: [f for f in part.rglob("*") if f.is_file()] for part in parts}
    return {
        name: (len(files), sum(f.stat().st_size for f in files)) for name, files in counted.items()
    }


def clear() -> None:
    """Deletes everything in the cache."""
    root = cache_root()
    for part in root.iterdir() if root.is_dir() else ():
        if part.is_dir():
            shutil.rmtree(part)


def _last_used(entry: Path) -> float:
    """Seconds since the epoch; 0 for what is gone meanwhile."""
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # gone meanwhile
            total += file.stat().st_size if file.is_file() else 0
    return total
