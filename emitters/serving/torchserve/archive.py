"""Model archives (.mar), written to the same bytes each time.

A ``.mar`` is a zip of the model's files with ``MAR-INF/MANIFEST.json``, as torch-model-archiver
writes it (its ``model_packaging_utils.py``; the manifest's ``specificationVersion`` is 1.0). That
one puts the time into the zip and the manifest, so that no two are alike.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can say."""


def write_archive(
    path: Path, name: str, version: str, model: str, files: Mapping[str, Path | str]
) -> None:
    """Writes a ``.mar`` whose handler is ``handler.py``.

    Args:
        path: The file.
        name: The model's name.
        version: Its version, as ``1.0``.
        model: The artifact's name among ``files``.
        files: By their names in the archive: files, or texts.
    """
    manifest = {
        "createdOn": "01/01/1980 00:00:00",
        "runtime": "python",
        "model": {
            "modelName": name,
            "serializedFile": model,
            "handler": "handler.py",
            "modelVersion": version,
            "configFile": "model-config.yaml",
        },
        "archiverVersion": "0.12.0",
    }
    text = json.dumps(manifest, indent=2) + "\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for item, content in sorted({**files, "MAR-INF/MANIFEST.json": text}.items()):
            entry = zipfile.ZipInfo(item, _FIRST_DAY)
            entry.external_attr = 0o644 << 16
            if isinstance(content, Path):
                entry.file_size = content.stat().st_size  # above 2 GiB it has to be known before
                with content.open("rb") as source, archive.open(entry, "w") as target:
                    while chunk := source.read(1 << 20):
                        target.write(chunk)
            else:
                archive.writestr(entry, content)
