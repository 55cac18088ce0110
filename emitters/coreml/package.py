"""A program becomes an ``.mlpackage``: coremltools converts, what differs from run to run goes.

coremltools stores the day of the conversion, and a manifest with random identifiers: the same
model would give other bytes every time. Both are written here (``Manifest.json``: version 1.0.0 of
Apple's model package format, as coremltools' own library writes it).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.coreml_file import coremltools, find_parts
from emitters.coreml.interface import KEY, stored
from emitters.coreml.lowering import BUILDING, Lowered, target_of

KEY_DATE = "com.github.apple.coremltools.conversion_date"
_OURS = uuid.uuid5(uuid.NAMESPACE_DNS, "modelyard")


def convert(lowered: Lowered, target: int, inputs: list[Any]) -> Any:
    """coremltools' ``MLModel`` of a lowered program, in a folder of its own.

    Args:
        lowered: A program without refusals; not to be used afterwards.
        target: The oldest system that the package is for.
        inputs: coremltools' ``TensorType`` and ``ImageType``, in the program's order.
    """
    library = coremltools()
    with BUILDING:
        return library.convert(
            lowered.program,
            source="milinternal",
            convert_to="mlprogram",
            inputs=inputs,
            minimum_deployment_target=target_of(target),
            compute_precision=library.precision.FLOAT32,  # the program's own types
            skip_model_load=True,
        )


def write(model: Any, lowered: Lowered, path: Path, metadata: Mapping[str, str]) -> None:
    """Writes the package.

    Args:
        model: What :func:`convert` gave.
        lowered: Whose ports are stored in it.
        path: The folder to make; one that is there goes.
        metadata: User-defined metadata.
    """
    spec = model.get_spec()
    entries = spec.description.metadata.userDefined
    entries.pop(KEY_DATE, None)
    entries[KEY] = stored(lowered.inputs, lowered.outputs)
    entries.update(metadata)
    parts = find_parts(Path(model.package_path))
    assert parts.folder is not None
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".coreml-") as scratch:
        made = Path(scratch) / path.name
        home = made / "Data" / "com.apple.CoreML"
        home.mkdir(parents=True)
        (home / "model.mlmodel").write_bytes(spec.SerializeToString(deterministic=True))
        weights = parts.folder / "weights"
        if weights.is_dir():
            shutil.move(weights, home / "weights")
        (made / "Manifest.json").write_text(_manifest(weights=(home / "weights").is_dir()))
        if path.exists():
            shutil.rmtree(path)
        made.rename(path)


def _manifest(*, weights: bool) -> str:
    root, beside = (str(uuid.uuid5(_OURS, name)) for name in ("model", "weights"))
    items = {root: _item("CoreML Model Specification", "model.mlmodel", "model.mlmodel")}
    if weights:
        items[beside] = _item("CoreML Model Weights", "weights", "weights")
    content = {
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": items,
        "rootModelIdentifier": root,
    }
    return json.dumps(content, indent=4) + "\n"


def _item(description: str, name: str, file: str) -> dict[str, str]:
    author = "com.apple.CoreML"
    return {
        "author": author,
        "description": description,
        "name": name,
        "path": f"{author}/{file}",
    }
