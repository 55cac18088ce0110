"""Arrays by name in one uncompressed .npz file, whatever the names are.

``numpy.savez`` takes names as keywords and so can't store an input called ``file``; the
file written here is the same format, and ``numpy.load`` reads it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Writes arrays of any dtype that .npy holds; bytes depend on the contents alone."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Reads all arrays of an .npz file; pickled objects are refused with ValueError."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
