"""sha256 digests: of files and folders, of JSON values, of the tool's own code."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any


def file_digest(path: Path) -> str:
    """The sha256 of a file's contents, read in pieces; of a folder, of all files in it.

    A file is read once: as long as its inode, size and time stay the same, so does its digest.
    """
    if path.is_file():
        return _digest_of_file(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    names = [file.relative_to(path).as_posix() for file in files]
    key = (*names, *map(_facts, files))
    if key not in _known:
        whole = hashlib.sha256()
        for name, file in zip(names, files, strict=True):
            whole.update(f"{name}\0".encode())
            own = hashlib.sha256()
            with file.open("rb") as stream:
                while piece := stream.read(1 << 20):
                    whole.update(piece)
                    own.update(piece)
            _known[_facts(file)] = own.hexdigest()
        _known[key] = whole.hexdigest()
    return _known[key]


_known: dict[tuple[object, ...], str] = {}


def _digest_of_file(path: Path) -> str:
    key = _facts(path)
    if key not in _known:
        with path.open("rb") as file:
            _known[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _known[key]


def _facts(path: Path) -> tuple[int, ...]:
    facts = path.stat()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


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
    ours = (root / package for package in ("converter", "parsers", "emitters", "modelyard", "zoo"))
    digest = hashlib.sha256()
    for place in (*ours, *map(Path, plugins.places())):
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            name = file.relative_to(place.parent).as_posix()
            digest.update(name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
