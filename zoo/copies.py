"""Copies of fetched files in a folder of the user's, each whole or not there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from converter.errors import UsageError, from_os_error
from converter.files.store import digest_of_path


def copy_files(paths: Mapping[str, Path], folder: Path) -> dict[str, Path]:
    """Copies files, and folders whole, into ``folder`` under their own names.

    Args:
        paths: Files and folders by role.
        folder: Made where it isn't there.

    Returns:
        Where the copies lie, by role. What is there already with the same contents is left.

    Raises:
        UsageError: Something else of that name is in the way, or it can't be written.
        MachineError: The disk is full.
    """
    copies = {role: folder / path.name for role, path in paths.items()}
    taken = [copy for copy in copies.values() if copy.exists()]
    for role, copy in copies.items():
        if copy in taken and (
            copy.is_dir() != paths[role].is_dir()
            or digest_of_path(copy) != digest_of_path(paths[role])
        ):
            raise UsageError(
                f"{copy} exists already, and is another file", code="output-in-the-way"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for role, copy in copies.items():
            if copy not in taken:
                _copy(paths[role], copy)
    except OSError as error:
        raise from_os_error(error, f"copying to {folder}") from error
    return copies


def _copy(source: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".copying-") as made:
        part = Path(made) / target.name
        if source.is_dir():
            shutil.copytree(source, part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, part)
        part.rename(target)
