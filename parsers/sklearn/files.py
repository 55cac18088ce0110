"""Which kind of file it is: scikit-learn's models', XGBoost's or LightGBM's."""

from __future__ import annotations

import zipfile
from pathlib import Path

from converter.files.pickles import HEAD, PICKLE_MARK, first_module
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


def _is_skops(path: Path) -> bool:
    try:
        with opened(path) as archive:
            return "schema.json" in archive.namelist()
    except zipfile.BadZipFile:
        return False
