"""sha256 digests: of files and folders, of JSON values, of the tool's own code."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any


def file_digest(path: Path) -> str:
    """The sha256 of a file's contents; of a folder, of its files' names and sha256s.

    A file is read once: as long as its inode, size and time stay the same, so does its digest.
    """
    if path.is_file():
        return _digest_of_file(path)
    digest = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        digest.update(f"{file.relative_to(path).as_posix()}\0{_digest_of_file(file)}\0".encode())
    return digest.hexdigest()


_known: dict[tuple[int, ...], str] = {}


def _digest_of_file(path: Path) -> str:
    facts = path.stat()
    key = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    if key not in _known:
        with path.open("rb") as file:
            _known[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _known[key]


def digest_of(value: Any) -> str:
    """The sha256 of a JSON value, independent of the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def code_digest() -> str:
    """The sha256 of the tool's own code and of all plug-ins', so that another version never reads
    old results."""
    from converter import plugins  # only a run needs them, and every command imports this module

    root = Path(__file__).resolve().parents[2]
    ours = (root / package for package in ("converter", "parsers", "emitters", "zoo"))
    digest = hashlib.sha256()
    for place in (*ours, *map(Path, plugins.places())):
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            name = file.relative_to(place.parent).as_posix()
            digest.update(name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
