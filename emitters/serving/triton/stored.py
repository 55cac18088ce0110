"""Adds a model version to a Triton repository in an object store: ``s3://bucket/models``.

Triton takes every folder of the repository for a model, every folder in a model whose name starts
with a number for a version, and plain objects of the repository for nothing
(``GetDirectorySubdirs`` in the server core's ``filesystem`` lists what lies below a ``/``). It
downloads a version's folder and then opens one file in it by name. So that file is the last that
is written: until it is there, Triton can't load the version, and keeps the one that it has.
"""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePosixPath

from converter.errors import UsageError
from converter.files.object_store import ObjectStore
from converter.files.store_writer import Source, StoreWriter
from converter.protocols.server import Announce
from emitters.serving.triton.as_is import BACKENDS
from emitters.serving.triton.config import CONFIG_NAME, MODEL_FILE, read_config
from emitters.serving.triton.engine import PLAN_FILE
from emitters.serving.triton.front_files import CODE
from emitters.serving.triton.repository import (
    next_version,
    policy_note,
    require_apart,
    require_same_interface,
)

_OPENED = (CODE, PLAN_FILE, MODEL_FILE, *(backend.file for backend in BACKENDS.values()))
"""What backends open in a version's folder, by their own choice."""


def publish_stored(
    model: Path, version: int, repository: str, announce: Announce
) -> tuple[PurePosixPath, list[str]]:
    """Adds a packaged model to a repository.

    As :func:`emitters.serving.triton.repository.publish_model`. Writers of one model take turns
    (:class:`converter.files.store_writer.StoreWriter`).

    Args:
        model: The packaged model's folder.
        version: The version in it.
        repository: The store's URL.
        announce: Called before the version appears; see
            :data:`converter.protocols.server.Announce`.

    Returns:
        The new version's place in the store, and what was decided.

    Raises:
        UsageError: The store holds a model of this name without a configuration or with another
            interface, or one of a name that is the same but for its case.
        MachineError: The store can't be reached.
    """
    store, source = ObjectStore(repository), model / str(version)
    opened = _opened(model, source)
    with StoreWriter(store, model.name) as writer:
        staged: dict[str, Source] = {name: writer.stage(source / name) for name in _files(source)}
        with writer.turn(), tempfile.TemporaryDirectory() as folder:
            target = store.outline(model.name, Path(folder))
            if target.exists():
                notes = require_same_interface(model, target, store.at(model.name))
                number = next_version(target)
                notes += policy_note(target, number)
                place, made, objects = f"{model.name}/{number}", source, staged
            else:
                require_apart(model.name, store.folders(), repository)
                number, notes = version, [f"new model {model.name} in the repository"]
                others = {n: model / n for n in _files(model) if not n.startswith(f"{version}/")}
                place, made = model.name, model
                objects = {**others, **{f"{version}/{name}": part for name, part in staged.items()}}
                opened = f"{version}/{opened}"
            announce(made, store.at(place), Path(opened))
            writer.place({f"{place}/{n}": s for n, s in objects.items()}, f"{place}/{opened}")
    return PurePosixPath(model.name, str(number)), notes


def require_stored(model: Path, repository: str) -> None:
    """Refuses what :func:`publish_stored` would refuse, before anything is added.

    Raises:
        UsageError, MachineError: As there.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = ObjectStore(repository)
        target = store.outline(model.name, Path(folder))
        if target.exists():
            require_same_interface(model, target, store.at(model.name))


def _files(folder: Path) -> list[str]:
    """The files below a folder, by their paths in it."""
    return sorted(f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file())


def _opened(model: Path, version: Path) -> str:
    """The file without which the backend can't load a version, by its path in the version's
    folder; of a folder that the backend opens, the one that its format reads first."""
    named = read_config(model / CONFIG_NAME).default_model_filename
    for name in (named, *_OPENED) if named else _OPENED:
        if (version / name).is_file():
            return name
        if (version / name / "saved_model.pb").is_file():
            return f"{name}/saved_model.pb"
    raise UsageError(
        f"{version} holds none of the files that Triton opens: {', '.join(_OPENED)}",
        code="repository",
    )
