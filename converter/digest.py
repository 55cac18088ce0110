"""sha256 digests: of files and folders, of JSON values, of the tool's own code."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any


def file_digest(path: Path) -> str:
    """The sha256 of a file's contents, read in pieces; of a folder, of all files in it."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        if file is not path:
            digest.update(f"{file.relative_to(path).as_posix()}\0".encode())
        with file.open("rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()


def digest_of(value: Any) -> str:
    """The sha256 of a JSON value, independent of the order of its keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def code_digest() -> str:
    """The sha256 of the tool's own code, so that another version never reads old results."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for package in ("converter", "parsers", "emitters", "zoo"):
        for file in sorted((root / package).rglob("*.py")):
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
