"""What TorchServe's own handlers do, as a declaration of preparation and answers.

Meant are those of ``ts/torch_handler``: ``image_classifier.py``, ``image_segmenter.py``,
``object_detector.py`` and ``text_classifier.py``. A handler of the user's is code, which isn't run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from converter.ir.model import Model
from converter.preparation.suggested import IMAGES, Suggested
from converter.preparation.written import ANSWER, PREPARE
from parsers.pytorch.mar_archive import LABELS, STAGES, Archive
from parsers.pytorch.pictures import of_size

SIDE = 224
_MEAN, _STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

_CROPPED = {
    "image_resize": "256",
    "image_size": f"{SIDE}x{SIDE}",
    "image_interpolation": "bilinear",
    "image_mean": _MEAN,
    "image_std": _STD,
}
_AS_IT_IS: dict[str, Any] = {"image_mean": [0.0] * 3, "image_std": [1.0] * 3}


@dataclass(frozen=True)
class Handler:
    """A handler of TorchServe's.

    Attributes:
        images: Options of images that do what it does; empty where it takes none.
        inputs: What its model takes, where that is always the same.
        lost: What of it isn't taken over.
    """

    images: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[str] = ()
    lost: str = ""


_CROP = (f"image:batchx3x{SIDE}x{SIDE}",)

HANDLERS = {
    "image_classifier": Handler(_CROPPED, _CROP),
    "image_segmenter": Handler(_CROPPED, _CROP),
    "object_detector": Handler(_AS_IT_IS),
    "text_classifier": Handler(
        lost="how it makes numbers of a text (clean-up, n-grams, vocabulary)"
    ),
    "base_handler": Handler(),
}

_OURS = {"inference.py", "model.json", "handler.py"}
"""Files of an archive that Modelyard wrote."""


def handler_of(archive: Archive) -> Handler | None:
    """TorchServe's handler; None where the archive has one of its own."""
    return HANDLERS.get(_called(archive))


def _called(archive: Archive) -> str:
    """Its name: a manifest may say ``image_classifier``, with ``.py`` or a class behind it."""
    if archive.handler in archive.names:
        return ""
    return PurePosixPath(archive.handler.partition(":")[0]).stem


def not_taken(archive: Archive) -> str:
    """What of the archive's handler isn't taken over; empty where all is."""
    handler = handler_of(archive)
    if handler is not None:
        return handler.lost and f"{archive.handler}: {handler.lost}"
    if STAGES in archive.names or archive.names >= _OURS or not archive.handler:
        return ""
    if archive.handler in archive.names:
        return f"{archive.handler} is code of the archive's own, and isn't run"
    return f"the handler {archive.handler}"


def describe(model: Model, archive: Archive) -> None:
    """Notes in a model what its archive says of files and answers."""
    name, handler = _called(archive), handler_of(archive)
    origins: dict[str, str] = {}
    output = model.outputs[0]
    if archive.labels and output.shape and output.shape[-1] == len(archive.labels):
        model.describe(output.name, meaning="scores", labels=list(archive.labels))
        origins["answer (classes)"] = LABELS
    if name in ("image_classifier", "text_classifier") and len(output.shape or ()) == 2:
        model.describe(output.name, activation="softmax")
    if handler is not None and handler.images:
        shapes = [spec.shape or () for spec in model.inputs]
        model.source[IMAGES] = of_size(handler.images, shapes)
        origins["prepare (picture)"] = f"the handler {archive.handler}"
    prepare, answer = _own(archive) if archive.stages else [[], _answer(model, name, archive)]
    for where, items in (("prepare", prepare), ("answer", answer)):
        told = STAGES if archive.stages else f"the handler {archive.handler}"
        origins |= {f"{where} ({item['kind']})": told for item in items}
    lost = not_taken(archive)
    notes = [f"not taken over: {lost}"] if lost else []
    model.source |= Suggested(prepare, answer, origins, notes).told()


def _own(archive: Archive) -> list[list[Any]]:
    """What ``stages.json`` declares, but for what needs other files of the archive's."""
    found = []
    for where, known, apart in (
        ("prepare", PREPARE, ("step", "text")),
        ("answer", ANSWER, ("step",)),
    ):
        said = archive.stages.get(where)
        items = (
            [item for item in said if isinstance(item, Mapping)] if isinstance(said, list) else []
        )
        kinds = {*known} - {*apart}
        found.append([item for item in items if str(item.get("kind")) in kinds])
    return found


def _answer(model: Model, name: str, archive: Archive) -> list[dict[str, Any]]:
    outputs = [spec.name for spec in model.outputs]
    if name == "object_detector" and {*outputs} >= {"boxes", "scores", "labels"}:
        return [{"kind": "boxes", "output": "boxes", "scores": "scores", "classes": "labels",
                 "labels": archive.labels, "threshold": 0.5}]  # fmt: skip
    if name == "image_segmenter":
        output = "out" if "out" in outputs else outputs[0]
        return [{"kind": "masks", "output": output, "labels": archive.labels}]
    return []
