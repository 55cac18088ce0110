"""Which kind of file it is: scikit-learn's models', XGBoost's or LightGBM's."""

from __future__ import annotations

import zipfile
from mmap import ACCESS_READ, mmap
from pathlib import Path

from converter.files.pickles import HEAD, PICKLE_MARK, first_module
from converter.files.reading import reading
from parsers.worker.archive import opened

SKOPS, PICKLE, XGBOOST, LIGHTGBM = "skops", "pickle", "xgboost", "lightgbm"

_PICKLED = (".joblib", ".pkl", ".pickle")
_MODULES = {"sklearn", "joblib", "imblearn", "xgboost", "lightgbm"}


def kind_of(path: Path) -> str:
    """One of the kinds above, by content where the format has a mark; empty for another file.

    A pickle is one by the package that its first object is of, or by its suffix; one of joblib's
    may be compressed, and has its suffix alone.

    Raises:
        OSError: It can't be read.
    """
    if not path.is_file():
        return ""
    suffix = path.suffix.lower()
    with path.open("rb") as file:
        head = file.read(HEAD)
    if suffix == ".skops" or (head.startswith(b"PK\x03\x04") and _is_skops(path)):
        return SKOPS
    if head.startswith(b"tree\nversion="):
        return LIGHTGBM
    if head.startswith(b"{") and b"learner" in head[:64]:
        return XGBOOST
    named = suffix in _PICKLED and head.startswith(PICKLE_MARK)
    return PICKLE if named or suffix == ".joblib" or first_module(head) in _MODULES else ""


def refuse_garbage(path: Path, kind: str) -> None:
    """Refuses what is no model of its kind by what each of them holds: a plan is made of no other.

    Raises:
        ModelError: It lacks that; what is wrong within shows where it is read.
        OSError: It can't be read.
    """
    with reading(path.name):
        if kind == SKOPS and "schema.json" not in _members(path):
            raise ValueError("it has no schema.json")
        if kind in _HOLDS:
            what, *parts = _HOLDS[kind]
            with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
                if any(content.find(part.encode()) < 0 for part in parts):
                    raise ValueError(f"it is cut short, or holds no {what}")


_HOLDS = {
    LIGHTGBM: ("trees", "\nTree=", "\nend of trees"),
    XGBOOST: ("booster", "gradient_booster", "learner_model_param"),
}
"""In words, and what each model of the kind has; XGBoost's JSON and UBJSON alike."""


def _is_skops(path: Path) -> bool:
    try:
        return "schema.json" in _members(path)
    except zipfile.BadZipFile:
        return False


def _members(path: Path) -> list[str]:
    with opened(path) as archive:
        return archive.namelist()
