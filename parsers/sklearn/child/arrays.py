"""Arrays from and to .npz files; text is numpy's own, without objects."""

from __future__ import annotations

import zipfile
from typing import Any, Dict, Mapping

import numpy as np

from ...worker.errors import WorkerError


def read(path: str) -> Dict[str, Any]:
    """Arrays by name. Raises usage if they can't be read."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise WorkerError("usage", f"the feeds can't be read: {error}", code="usage") from error


def write(path: str, arrays: Mapping[str, Any]) -> None:
    """Like numpy.savez, which can't store an output called `file`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
