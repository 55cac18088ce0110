"""Reads ``engine.lock.json`` and holds the files that it names against it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from emitters.tensorrt.engine_script.refusals import USAGE, Stopped

LOCK_NAME = "engine.lock.json"
LOCK_FORMAT = 1
ONNX_FOLDER = "onnx"
"""Beside the version folders: where a switched Triton folder keeps its ONNX files."""


def read_lock(folder: Path) -> dict[str, Any]:
    """The lock in ``folder``.

    Raises:
        Stopped: It isn't there, or not one that this script knows.
    """
    try:
        lock = json.loads((folder / LOCK_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Stopped(USAGE, f"reading {LOCK_NAME}: {error}") from None
    if not isinstance(lock, dict) or lock.get("format") != LOCK_FORMAT:
        raise Stopped(
            USAGE, f"{LOCK_NAME} isn't of the format {LOCK_FORMAT} that this script reads"
        )
    return lock


def find_model(folder: Path, lock: dict[str, Any]) -> Path:
    """The ONNX file: beside the lock, or where an earlier switch put it.

    Raises:
        Stopped: It isn't there, or it isn't the file that was locked.
    """
    files = [lock["model"], *lock["model"]["weights"]]
    places = [folder, folder.parent / ONNX_FOLDER / folder.name]
    for place in places:
        if (place / lock["model"]["file"]).is_file():
            for item in files:
                require_file(place / item["file"], item["sha256"])
            path: Path = place / lock["model"]["file"]
            return path
    raise Stopped(
        USAGE,
        f"{lock['model']['file']} is not there",
        [f"looked in {place}" for place in places],
    )


def require_file(path: Path, digest: str) -> None:
    """Refuses a file that isn't there or has other contents than were locked."""
    if not path.is_file():
        raise Stopped(USAGE, f"{path.name} is not there ({path})")
    found = file_sha256(path)
    if found != digest:
        raise Stopped(
            USAGE,
            f"{path.name} is not the file that was locked",
            [f"locked sha256 {digest}", f"found sha256  {found}"],
            "Package the model again, or put the locked file back.",
        )


def file_sha256(path: Path) -> str:
    """The hex sha256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
