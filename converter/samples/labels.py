"""Labels of samples that are files, and the names of the classes."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import UsageError, from_os_error
from converter.files.digest import file_digest
from converter.ir.model import TensorSpec

Array = np.ndarray[Any, Any]

FOLDER = "folder"
"""The value of ``--labels`` for a folder with one folder a class."""

_NUMBER = re.compile(r"\d+")
_FORMS = {
    "filename": "It takes the last number in a file's name: photo_03_7.png has the label 7.",
    FOLDER: "It takes the folder that a file lies in: pictures/cat/1.png has the label cat.",
}
_HEADERS = {"file", "filename", "image", "name", "path"}


def read_label_names(path: str) -> tuple[str, ...]:
    """The names of the classes, one a line; raises UsageError."""
    file = Path(path)
    try:
        names = file.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(f"--label-names {file.name} isn't text in UTF-8", code="labels") from error
    except OSError as error:
        raise from_os_error(error, f"reading --label-names {file.name}") from error
    while names and not names[-1].strip():
        names.pop()
    if not names:
        raise UsageError(f"--label-names {file.name} holds no names", code="labels")
    return tuple(name.strip() for name in names)


def are_by_file(labels: str | None) -> bool:
    """Whether ``--labels`` of .npz files isn't a key in them."""
    return labels in ("filename", FOLDER) or (labels or "").endswith((".csv", ".json"))


@dataclass(frozen=True)
class MaskFile:
    """A picture's mask: a PNG whose values are classes, 255 for none."""

    path: Path

    def array(self) -> Array:
        """Classes, [height, width]; raises UsageError."""
        from PIL import Image

        try:
            with Image.open(self.path, formats=("PNG",)) as image:
                if image.mode not in ("L", "P"):
                    raise UsageError(
                        f"the mask {self.path.name} is {image.mode}: a mask has one value "
                        "for each pixel",
                        code="labels",
                    )
                return np.asarray(image)
        except (OSError, ValueError, SyntaxError) as error:
            raise UsageError(
                f"the mask {self.path.name} can't be read: {error}", code="labels"
            ) from error


def content_of(label: Any) -> Any:
    """What a digest has of a label."""
    return file_digest(label.path) if isinstance(label, MaskFile) else label


def labels_of_files(
    names: Sequence[str],
    labels: str | None,
    label_names: Sequence[str] | None,
    metric: Sequence[str] = (),
) -> list[Any]:
    """A label for each file, or None for each where ``labels`` is None or ``none``.

    Args:
        names: The files, as named relative to their folder, with ``/``.
        labels: ``filename`` for the last number in each file's name, ``folder`` for the folder
            that each lies in, a CSV of file,label, a COCO JSON of boxes, or a folder of masks
            (PNG) of the same names; a file stands there by its relative or by its own name.
        label_names: Names of the classes: a CSV or a COCO JSON may give those.
        metric: What is asked for: where that is of texts, a CSV's labels stay as they are written.

    Raises:
        UsageError: A file has no label; all such files are listed.
    """
    if labels in (None, "none"):
        return [None] * len(names)
    found: dict[str, Any]
    if labels == FOLDER:
        found = _by_folder(names, label_names)
    elif labels == "filename":
        numbers = {name: _NUMBER.findall(Path(name).stem) for name in names}
        found = {name: int(n[-1]) for name, n in numbers.items() if n}
    elif labels is not None and Path(labels).is_dir():
        masks = {Path(n).with_suffix("").as_posix(): n for n in names}
        there = {stem: Path(labels, f"{stem}.png") for stem in masks}
        found = {masks[stem]: MaskFile(path) for stem, path in there.items() if path.is_file()}
    else:
        assert labels is not None
        read = _read_coco if labels.endswith(".json") else _read_table
        texts = any(name in ("wer", "cer") for name in metric)
        table = read(Path(labels), None if texts else label_names, texts)
        keys = {name: name if name in table else name.rpartition("/")[2] for name in names}
        found = {name: table[key] for name, key in keys.items() if key in table}
    if missing := [name for name in names if name not in found]:
        raise UsageError(
            f"--labels {Path(labels).name}: {len(missing)} of {len(names)} files have no label",
            code="labels",
            details=[*missing[:10], *(["..."] if len(missing) > 10 else [])],
            hint=_FORMS.get(str(labels), ""),
        )
    check_labels(found.values(), label_names)
    return [found[name] for name in names]


def classes_in(outputs: Iterable[TensorSpec]) -> tuple[str, ...] | None:
    """The names of its classes that a model itself has."""
    return next((tuple(spec.labels) for spec in outputs if spec.labels), None)


def classes_of(names: Iterable[str]) -> tuple[str, ...] | None:
    """The folders that files lie in, sorted: the classes' names, in the order of their indices.

    None where all of them are whole numbers: those are the indices, and sorting them as text
    would make others of them.
    """
    folders = sorted({name.partition("/")[0] for name in names if "/" in name})
    return None if all(folder.isdecimal() for folder in folders) else tuple(folders)


def _by_folder(names: Sequence[str], label_names: Sequence[str] | None) -> dict[str, Any]:
    """Each file's class, by the first folder of its name."""
    known = label_names or classes_of(names)
    found: dict[str, Any] = {}
    for name in names:
        folder, slash, _ = name.partition("/")
        if known and slash and folder in known:
            found[name] = list(known).index(folder)
        elif slash and folder.isdecimal():
            found[name] = int(folder)
        elif slash:
            raise UsageError(
                f"--labels folder: {folder} isn't one of the model's classes",
                code="labels",
                details=[f"the classes are {', '.join(list(known or ())[:10])}"],
                hint="Name the folders after the classes, or after their indices.",
            )
    return found


def check_labels(labels: Any, label_names: Sequence[str] | None) -> None:
    """Raises UsageError for a label that no name stands for."""
    for label in labels:
        if label_names and isinstance(label, int) and not 0 <= label < len(label_names):
            raise UsageError(
                f"the label {label} is not among the {len(label_names)} names of --label-names",
                code="labels",
                hint="The file needs a line for each class, in the order of the model's outputs.",
            )


def parse_label(text: str, label_names: Sequence[str] | None) -> Any:
    """A label written as text: a class's name (its index), a whole number, a number, or text."""
    text = text.strip()
    if label_names and text in label_names:
        return label_names.index(text)
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _read_coco(
    file: Path, label_names: Sequence[str] | None, texts: bool = False
) -> dict[str, Any]:
    """The boxes of each file: COCO's annotations, with the class's ``index``: that of its name
    among the classes' names, else its place among the categories by their ids."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        named = {item["id"]: item["name"] for item in said["categories"]}
        places = {number: place for place, number in enumerate(sorted(named))}
        known = list(label_names or ())
        if unknown := [name for name in named.values() if known and name not in known]:
            raise UsageError(
                f"--labels {file.name}: the model has no class {unknown[0]}", code="labels"
            )
        found: dict[Any, list[Any]] = {item["id"]: [] for item in said["images"]}
        for item in said["annotations"]:
            number = item["category_id"]
            index = known.index(named[number]) if known else places[number]
            box = {"bbox": [float(v) for v in item["bbox"]], "index": index}
            extra = {key: item[key] for key in ("area", "iscrowd") if key in item}
            found[item["image_id"]].append(box | extra)
        return {item["file_name"]: found[item["id"]] for item in said["images"]}
    except OSError as error:
        raise from_os_error(error, f"reading --labels {file.name}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"--labels {file.name} isn't a JSON file of COCO: {error!r}", code="labels"
        ) from error


def _read_table(
    file: Path, label_names: Sequence[str] | None, texts: bool = False
) -> dict[str, Any]:
    if not file.is_file():
        raise UsageError(
            f"--labels {file.name}: there is no such file",
            code="labels",
            hint="For files, labels are 'filename', 'folder', a CSV of file,label, or 'none'.",
        )
    table = {}
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            for number, row in enumerate(csv.reader(stream), 1):
                if not row or (number == 1 and row[0].strip().lower() in _HEADERS):
                    continue
                if len(row) != 2:
                    raise UsageError(
                        f"--labels {file.name}, line {number}: expected file,label, "
                        f"found {len(row)} columns",
                        code="labels",
                    )
                table[row[0].strip()] = row[1] if texts else parse_label(row[1], label_names)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(
            f"--labels {file.name} is not a CSV in UTF-8 ({error})", code="labels"
        ) from error
    except OSError as error:
        raise from_os_error(error, f"reading --labels {file.name}") from error
    return table
