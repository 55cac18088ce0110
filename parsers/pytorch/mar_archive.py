"""A ``.mar``: a zip of a model's files with ``MAR-INF/MANIFEST.json``.

What the manifest says is torch-model-archiver's ``manifest_components``; how the server reads
``index_to_name.json`` and finds a model's class is TorchServe's ``ts/utils/util.py``.
"""

from __future__ import annotations

import ast
import json
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from converter.errors import ModelError
from converter.files.archives import opened
from parsers.pytorch.spec import MANIFEST
from parsers.worker.archive import grown

LABELS, STAGES = "index_to_name.json", "stages.json"
_LARGEST_JSON = 1 << 26
"""Bytes of a file in it that is read as JSON."""

_DIGITS = 6
"""Of a class's number: no model has a million."""

AGAIN = "Archive the model again with torch-model-archiver."


@dataclass(frozen=True)
class Archive:
    """What an archive's manifest and its small files say.

    Attributes:
        path: The file.
        name: The model's.
        model: The serialized file, by its name in the archive; empty where there is none.
        code: The Python file with the model's class; empty where the file holds the model whole.
        handler: As the manifest has it.
        names: All its files.
        labels: The classes' names, in order.
        stages: What ``stages.json`` of Modelyard's own archives says.
    """

    path: Path
    name: str
    model: str
    code: str
    handler: str
    names: frozenset[str]
    labels: tuple[str, ...] = ()
    stages: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Archive:
        """Raises ModelError for one that is damaged, or that would lie outside of a folder."""
        try:
            with opened(path) as archive:
                _require_sound(path, archive)
                said = _json(path, archive, MANIFEST).get("model")
                names = frozenset(archive.namelist())
                labels = _json(path, archive, LABELS) if LABELS in names else {}
                stages = _json(path, archive, STAGES) if STAGES in names else {}
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
            raise ModelError(
                f"{path.name} isn't a whole archive: {error}", code="model-damaged", hint=AGAIN
            ) from error
        if not isinstance(said, Mapping):
            raise ModelError(
                f"{path.name}: {MANIFEST} names no model", code="model-damaged", hint=AGAIN
            )
        model, code = (_named(path, said, key, names) for key in ("serializedFile", "modelFile"))
        name, handler = str(said.get("modelName") or path.stem), str(said.get("handler") or "")
        return cls(path, name, model, code, handler, names, _labels(path, labels), stages)

    def unpack(self, folder: Path) -> None:
        """Writes its files into a folder that is there; links in it become files."""
        with opened(self.path) as archive:
            for item in archive.infolist():
                if item.is_dir():
                    continue
                place = folder / item.filename
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(item) as source, place.open("wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)

    def source(self, folder: Path) -> str:
        """The model in ``folder``, which the archive was unpacked into, as a source is named.

        Raises:
            ModelError: There is none, or the code has another number of classes than one.
        """
        if not self.code:
            return str(folder / self.model)
        try:
            tree = ast.parse((folder / self.code).read_bytes())
        except (SyntaxError, ValueError) as error:
            raise ModelError(
                f"{self.code} in {self.path.name} isn't Python: {error}", code="model-damaged"
            ) from error
        classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
        if len(classes) != 1:
            raise ModelError(
                f"{self.code} in {self.path.name} has {len(classes)} classes, and TorchServe "
                "needs exactly one",
                code="choose-one",
                details=classes,
                hint=f"Unpack the archive, and name the class: {self.code}:CLASS --weights "
                f"{self.model}",
            )
        return f"{folder / self.code}:{classes[0]}"


def is_archive(path: Path) -> bool:
    """Whether a file is one, by its contents.

    Raises:
        OSError: It can't be read.
    """
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return False
    try:
        with opened(path) as archive:
            return MANIFEST in archive.namelist()
    except zipfile.BadZipFile:
        return False


def _require_sound(path: Path, archive: zipfile.ZipFile) -> None:
    names = [item.filename for item in archive.infolist()]
    outside = [name for name in names if not _is_inside(name)]
    problems = [f"{name!r} would be outside of its folder" for name in outside]
    problems += [f"{name} is in it twice" for name in {*names} if names.count(name) > 1]
    problems += grown(archive)
    if MANIFEST not in names:
        problems.append(f"it has no {MANIFEST}")
    if problems:
        raise ModelError(
            f"{path.name} can't be read", code="model-damaged", details=problems, hint=AGAIN
        )


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    odd = "\\" in name or ":" in name or "\0" in name
    return bool(parts) and not odd and not name.startswith("/") and ".." not in parts


def _json(path: Path, archive: zipfile.ZipFile, name: str) -> Mapping[str, Any]:
    if archive.getinfo(name).file_size > _LARGEST_JSON:
        raise ModelError(
            f"{path.name}: {name} is larger than {_LARGEST_JSON >> 20} MiB", code="model-too-large"
        )
    try:
        said = json.loads(archive.read(name))
    except ValueError as error:
        raise ModelError(
            f"{path.name}: {name} isn't JSON: {error}", code="model-damaged", hint=AGAIN
        ) from error
    if not isinstance(said, Mapping):
        raise ModelError(
            f"{path.name}: {name} is a {type(said).__name__}, not an object",
            code="model-damaged",
        )
    return said


def _named(path: Path, said: Mapping[str, Any], key: str, names: frozenset[str]) -> str:
    """The file that the manifest names; empty where it names none."""
    name = str(said.get(key) or "")
    if name and name not in names:
        raise ModelError(
            f"{path.name}: {MANIFEST} names {name}, which isn't in it",
            code="model-damaged",
            hint=AGAIN,
        )
    return name


def _labels(path: Path, said: Mapping[str, Any]) -> tuple[str, ...]:
    """Classes' names by their numbers; of a list, its last is the name."""
    listed = said.get("object_type_names", said)
    if isinstance(listed, Mapping):
        digits = [key for key in listed if key.isdecimal() and len(key) <= _DIGITS]
        if len(digits) < len(listed):
            raise ModelError(
                f"{path.name}: {LABELS} has keys that aren't class numbers",
                code="model-damaged",
            )
        known = {int(key): value for key, value in listed.items()}
        listed = [known.get(number, str(number)) for number in range(max(known, default=-1) + 1)]
    if not isinstance(listed, list):
        raise ModelError(f"{path.name}: {LABELS} lists no names", code="model-damaged")
    return tuple(str(item[-1] if isinstance(item, list) and item else item) for item in listed)
