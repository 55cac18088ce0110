"""Files of an artifact in a server's folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from converter.protocols.emitter import Artifact


def place_artifact(artifact: Artifact, folder: Path) -> None:
    """The artifact's files in ``folder``, under their own names."""
    for file in artifact.files or [artifact.path]:
        if file == artifact.path:
            link_or_copy(file, folder / file.name)
        else:  # weights beside a model: onnx refuses a file of several names there
            shutil.copyfile(file, folder / file.name)


def place_asset(source: Path, target: Path) -> None:
    """A file that goes with a model, in a folder that is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link where the file system has them, which saves the weights' space."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
