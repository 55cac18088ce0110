"""Files of an artifact in a server's folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.errors import UsageError
from converter.protocols.emitter import Artifact
from emitters.packaging.script.stored import FACTS


def place_artifact(artifact: Artifact, folder: Path) -> None:
    """The artifact's files in ``folder``, under their own names."""
    for file in artifact.files or [artifact.path]:
        if file == artifact.path:
            link_or_copy(file, folder / file.name)
        else:  # weights beside a model: onnx refuses a file of several names there
            shutil.copyfile(file, folder / file.name)


def facts_of(folder: Path) -> dict[str, Any]:
    """What a package's ``modelyard.json`` says.

    Raises:
        UsageError: It has none that can be read.
    """
    try:
        return dict(json.loads((folder / FACTS).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{folder.name}/{FACTS} was changed since it was written: {error}",
            code="package-incomplete",
        ) from error


def model_files(folder: Path, facts: Mapping[str, Any]) -> list[str]:
    """What of a package is the model, and the weights beside it; a flow's are its parts'."""
    (top, *_) = Path(facts.get("artifact", "parts")).parts
    return sorted(item.name for item in folder.iterdir() if item.name.startswith(top))


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
