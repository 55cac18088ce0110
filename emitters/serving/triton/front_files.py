"""Reads back the model folder that :mod:`emitters.serving.triton.front` writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from converter.files.reading import reading
from converter.preparation.staged.base import FILE
from emitters.packaging.stages import MODULE, needs_of_parts
from emitters.serving.triton.config import CONFIG_NAME, read_config, version_numbers

BACKEND = "python"
CODE = "model.py"
CALLS, SEPARATOR = "calls", ","
"""The parameter in ``config.pbtxt`` that names the models that are asked."""

FLOW = "flow.json"
"""What a flow's model does; beside its code."""

WITH = {"soundfile": ("cffi==2.1.1", "typing_extensions==4.16.0")}
"""What a package's own packages need besides, where pip fetches nothing by itself."""


def called_by(config: Any) -> list[str]:
    """The names of the models that a model in front asks; none for every other configuration."""
    if CALLS not in config.parameters:
        return []
    return str(config.parameters[CALLS].string_value).split(SEPARATOR)


def calls(folder: Path) -> list[Path]:
    """The packages beside one that it asks itself."""
    return [folder.parent / name for name in called_by(read_config(folder / CONFIG_NAME))]


def behind(folder: Path) -> list[Path]:
    """Those of them that belong to it alone: a flow asks models that are packages themselves."""
    version = folder / str(version_numbers(folder)[-1])
    return [] if (version / FLOW).is_file() else calls(folder)


def needs(folder: Path) -> list[str]:
    """pip's requirements of a model in front, in its newest version, and theirs.

    Raises:
        ModelError: Its ``stages.json`` is damaged.
    """
    version = folder / str(version_numbers(folder)[-1])
    with reading(FILE):
        said = [json.loads((version / FILE).read_text(encoding="utf-8"))]
        if (version / FLOW).is_file():
            flow = json.loads((version / FLOW).read_text(encoding="utf-8"))
            said += flow["parts"].values()
        known = dict.fromkeys(name for one in said for name in needs_of_parts(one))
    return [more for name in known for more in (name, *WITH.get(name.split("==")[0], ()))]


def front_problems(folder: Path, config: Any) -> Iterator[str]:
    """What is wrong with a model in front."""
    for name in called_by(config):
        if not (folder.parent / name / CONFIG_NAME).is_file():
            yield f"it asks {name}, which isn't beside it"
    for number in version_numbers(folder):
        for file in (CODE, MODULE, FILE):
            if not (folder / str(number) / file).is_file():
                yield f"version {number} holds no {file}"
