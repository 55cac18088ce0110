"""A program becomes an ``.mlpackage``: coremltools converts, what differs from run to run goes.

coremltools' own ``convert`` writes the weights to a temporary folder and copies them into a package
in another; here they are written once, where they stay. It stores the day of the conversion, and a
manifest with random identifiers: the same model would give other bytes every time. So the manifest
is written here (``Manifest.json``: version 1.0.0 of Apple's model package format, as coremltools'
own library writes it).
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from converter.errors import MachineError
from emitters.coreml.lowering import BUILDING, Lowered, target_of
from emitters.coreml.passes import pipeline
from emitters.coreml.quicker import one_validation
from modelyard.containers.coreml import coremltools

_OURS = uuid.uuid5(uuid.NAMESPACE_DNS, "modelyard")
_FOLDER = Path("Data") / "com.apple.CoreML"


def write(
    lowered: Lowered,
    path: Path,
    target: int,
    inputs: list[Any],
    describe: Callable[[Any], None],
    classifier: Any = None,
) -> Any:
    """Writes the package.

    Args:
        lowered: A program without refusals; not to be used afterwards.
        path: The folder to make.
        target: The oldest system that the package is for.
        inputs: coremltools' ``TensorType`` and ``ImageType``, in the program's order.
        describe: Fills in the description of ``Model.proto``.
        classifier: coremltools' ``ClassifierConfig``.

    Returns:
        The package's ``Model.proto``.

    Raises:
        MachineError: The disk is full.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".coreml-") as scratch:
        made = Path(scratch) / path.name
        home = made / _FOLDER
        weights = home / "weights"
        weights.mkdir(parents=True)
        model = _convert(lowered, target, inputs, weights, classifier)
        describe(model.description)
        (home / "model.mlmodel").write_bytes(model.SerializeToString(deterministic=True))
        if not any(weights.iterdir()):
            weights.rmdir()
        (made / "Manifest.json").write_text(_manifest(weights=weights.is_dir()))
        made.rename(path)
    return model


def _convert(
    lowered: Lowered, target: int, inputs: list[Any], weights: Path, classifier: Any
) -> Any:
    """``Model.proto`` of a program, whose weights go into a folder.

    What ``coremltools.convert`` does with a program of its own operations (``source=milinternal``),
    in the program's own types: none is brought to float16.
    """
    coremltools()
    from coremltools.converters.mil import converter

    number = target_of(target)
    with BUILDING, one_validation():
        try:
            model, _ = converter.mil_convert_to_proto(
                lowered.program,
                "milinternal",
                "mlprogram",
                converter.ConverterRegistry,
                main_pipeline=pipeline(),
                inputs=inputs,
                classifier_config=classifier,
                specification_version=number,
                weights_dir=str(weights),
            )
        except RuntimeError as error:
            if "FileWriter" not in str(error):
                raise
            raise MachineError(  # all that it says of a disk that is full
                f"writing the package's weights: coremltools couldn't write all of them ({error})",
                code="write-failed",
                hint="Free some space, or raise the file-size limit (ulimit -f), and run it again.",
            ) from error
        finally:
            converter._reset_conversion_state()
    return model


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
