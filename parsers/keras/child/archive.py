"""Looks into Keras' files without Keras: the configuration, and whether anything leads outside."""

from __future__ import annotations

import json
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...worker import archive as worker_archive
from ...worker.errors import WorkerError
from ...worker.packages import require
from . import config as keras_config

_CONFIG_BYTES = 256 * 1024 * 1024


@dataclass
class Content:
    """A Keras file: `kind` is "keras" for the archive or "h5", `config` the model's.

    `upgraded` says that `config` is no longer as the file has it.
    """

    kind: str
    config: dict[str, Any]
    upgraded: bool = False


def read(file: Path) -> Content:
    """The configuration of a file, an archive or HDF5 whatever its suffix.

    Raises usage for a file that holds no model (weights alone, something else in HDF5), source
    for a damaged one, untrusted for one that leads outside itself.
    """
    return _read_archive(file) if zipfile.is_zipfile(file) else _read_hdf5(file)


def _parsed(file: Path, text: Any) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WorkerError(
            "source", f"{file.name}: its configuration isn't JSON: {error}", code="model-damaged"
        ) from error
    if not isinstance(config, dict):
        raise WorkerError(
            "source",
            f"{file.name}: its configuration doesn't describe a model",
            code="model-damaged",
        )
    return config


# -- .keras --------------------------------------------------------------------------------


def _read_archive(file: Path) -> Content:
    try:
        with worker_archive.opened(file) as archive:
            _refuse_members(file, archive)
            names = set(archive.namelist())
            if "config.json" not in names:
                raise WorkerError(
                    "usage",
                    f"{file.name} is an archive without a config.json",
                    code="unknown-format",
                )
            if archive.getinfo("config.json").file_size > _CONFIG_BYTES:
                raise WorkerError(
                    "source", f"{file.name}: its config.json is too large", code="model-too-large"
                )
            config = _parsed(file, archive.read("config.json"))
            for name in sorted(names):
                if name.endswith(".h5"):
                    with archive.open(name) as stream:
                        _examine_weights(file, stream, name)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise WorkerError(
            "source", f"{file.name} is damaged: {error}", code="model-damaged"
        ) from error
    return Content("keras", config)


def _refuse_members(file: Path, archive: zipfile.ZipFile) -> None:
    """Refuse members that would be written elsewhere, links, and bombs."""
    found: list[str] = []
    for info in archive.infolist():
        parts = info.filename.replace("\\", "/").split("/")
        if info.filename.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
            found.append(f"{info.filename}: it would be written outside the archive's folder")
        elif stat.S_ISLNK(info.external_attr >> 16):
            found.append(f"{info.filename}: it is a link")
    found += worker_archive.grown(archive)
    if found:
        raise WorkerError("untrusted", f"{file.name} isn't an archive that Keras wrote", found)


# -- HDF5 ----------------------------------------------------------------------------------


def _read_hdf5(file: Path) -> Content:
    h5py = require("h5py", "h5py", "to read the model's file")
    try:
        with h5py.File(file, "r") as opened:
            _refuse_links(file.name, _outside(h5py, opened))
            text = opened.attrs.get("model_config")
            if text is None:
                raise _without_model(file, opened)
            return Content("h5", _parsed(file, text))
    except OSError as error:
        raise WorkerError(
            "source", f"{file.name} is damaged: {error}", code="model-damaged"
        ) from error


def _without_model(file: Path, opened: Any) -> WorkerError:
    kind = keras_config.kind_of(opened.attrs, set(opened))
    if kind == "weights":
        return WorkerError(
            "unsupported",
            f"{file.name} only holds weights, not the model that they belong to",
            [
                "weights without a model: save the whole model with "
                "model.save('model.keras') where its code is, and convert that file"
            ],
        )
    what = f"it is {kind}" if kind else f"it holds {', '.join(sorted(opened)[:5]) or 'nothing'}"
    return WorkerError(
        "source", f"{file.name} is an HDF5 file without a Keras model: {what}", code="model-damaged"
    )


def _examine_weights(file: Path, stream: Any, name: str) -> None:
    h5py = require("h5py", "h5py", "to read the model's weights")
    try:
        with h5py.File(stream, "r") as opened:
            _refuse_links(f"{file.name}/{name}", _outside(h5py, opened))
    except OSError as error:
        raise WorkerError(
            "source", f"{file.name}: its {name} is damaged: {error}", code="model-damaged"
        ) from error


def _refuse_links(name: str, found: list[str]) -> None:
    if found:
        raise WorkerError("untrusted", f"{name} reads other files", found)


def _outside(h5py: Any, opened: Any) -> list[str]:
    """Everything that isn't stored in the file itself: links, external and virtual datasets."""
    found: list[str] = []
    waiting = [("", opened)]
    seen = set()
    while waiting:
        path, group = waiting.pop()
        for name in group:
            where = f"{path}/{name}"
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                found.append(f"{where}: a link to {link.filename}")
                continue
            item = group.get(name)
            if isinstance(item, h5py.Group) and item.id not in seen:
                seen.add(item.id)
                waiting.append((where, item))
            elif isinstance(item, h5py.Dataset):
                found += _odd_dataset(where, item)
    return found


def _odd_dataset(where: str, item: Any) -> list[str]:
    if item.external:
        return [f"{where}: its data is in {', '.join(str(e[0]) for e in item.external)}"]
    if item.is_virtual:
        return [f"{where}: its data is in other files"]
    if worker_archive.grows(item.nbytes, item.id.get_storage_size()):
        return [f"{where}: it claims {item.nbytes} bytes and holds {item.id.get_storage_size()}"]
    return []
