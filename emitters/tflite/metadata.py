"""TFLite metadata: what a model is, and what its inputs and outputs mean.

Source of the format: ``metadata_schema.fbs`` of TensorFlow Lite Support, identifier ``M001``; a
flatbuffer of its own in the file's metadata ``TFLITE_METADATA``. Its tables are written here field
by field, the numbers below being their order in that schema. Labels are a file of one name a line,
in an archive behind the model, as the metadata tools have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import flatbuffers
import numpy as np

from converter.ir.model import Model, TensorSpec
from converter.options.request import Request
from converter.preparation.inputs import Picture
from emitters.tflite.graph import TfliteModel
from emitters.tflite.session import dimensions

NAME = "TFLITE_METADATA"
IDENTIFIER = b"M001"
PARSER_VERSION = "1.0.0"
"""The oldest parser that knows the fields used here: normalization, image properties, labels."""

_MODEL = {"name": 0, "description": 1, "version": 2, "subgraphs": 3, "author": 4, "license": 5,
          "min_parser_version": 7}  # fmt: skip
_SUBGRAPH = {"name": 0, "inputs": 2, "outputs": 3}
_TENSOR = {"name": 0, "description": 1, "dimension_names": 2, "content": 3, "process_units": 4,
           "stats": 5, "files": 6}  # fmt: skip
_CONTENT = {"kind": 0, "properties": 1}
_UNIT = {"kind": 0, "options": 1}
_FEATURES, _IMAGE, _NORMALIZATION, _AXIS_LABELS = 1, 2, 1, 2
"""Numbers in the unions ContentProperties and ProcessUnitOptions, and in AssociatedFileType."""

_COLORS = {"rgb": 1, "gray": 2}
"""``ColorSpaceType``; the schema has none for BGR: 0, UNKNOWN, and the description says it."""


@dataclass
class Metadata:
    """What the file gets.

    Attributes:
        content: The flatbuffer.
        files: Contents of the files that it speaks of, by name.
    """

    content: bytes
    files: dict[str, bytes] = field(default_factory=dict)


def describe(made: TfliteModel, model: Model, request: Request) -> None:
    """Gives a TFLite model its description, its metadata, and the names of free dimensions.

    Args:
        made: The TFLite model, which is changed.
        model: What it was made of.
        request: See :func:`metadata_of`.
    """
    found = metadata_of(model, request)
    specs = (*model.inputs, *model.outputs)
    made.description = _described(model)
    made.metadata = {**made.metadata, **dimensions(specs), NAME: found.content}
    made.files = {**made.files, **found.files}


def metadata_of(model: Model, request: Request) -> Metadata:
    """Everything known of a model; the same bytes for the same model.

    Args:
        model: Its inputs' and outputs' meanings, and where it came from.
        request: Its name (``--name``), what is said of it (``--description``, ``--author``,
            ``--license``, ``--model-version``), and how images are prepared for it
            (``--image-mean`` and the like, and ``prepare``); its classes' names (``answer``).
    """
    files: dict[str, bytes] = {}
    builder = flatbuffers.Builder(1024)
    inputs = [_tensor(builder, spec, request, files) for spec in model.inputs]
    outputs = [_tensor(builder, spec, request, files) for spec in model.outputs]
    subgraph = _table(
        builder,
        10,
        [
            (_SUBGRAPH["inputs"], _offsets(builder, inputs)),
            (_SUBGRAPH["outputs"], _offsets(builder, outputs)),
        ],
    )
    texts = {
        "name": request.name or str(model.source.get("class") or ""),
        "description": request.description or _described(model),
        "version": request.model_version or str(model.source.get("version") or ""),
        "author": request.author or str(model.source.get("author") or ""),
        "license": request.license or str(model.source.get("license") or ""),
        "min_parser_version": PARSER_VERSION,
    }
    fields = [(_MODEL[key], _text(builder, text)) for key, text in texts.items()]
    root = _table(builder, 8, [*fields, (_MODEL["subgraphs"], _offsets(builder, [subgraph]))])
    builder.Finish(root, IDENTIFIER)
    return Metadata(bytes(builder.Output()), files)


def _described(model: Model) -> str:
    """One line: what it was made of."""
    kind = model.source.get("class") or model.source.get("architecture")
    parts = [str(kind)] if kind else []
    if model.source.get("framework"):
        parts.append(f"from {model.source['framework']}")
    return " ".join([*parts, "converted by modelyard"])


# -- inputs and outputs ------------------------------------------------------------------


def _tensor(builder: Any, spec: TensorSpec, request: Request, files: dict[str, bytes]) -> int:
    is_image = spec.meaning == "image" and spec.rank == 4
    real = replace(spec, dtype="float32", scale=None)
    picture = None
    if is_image:
        from converter.samples.images import declared_picture

        picture = declared_picture((real,), request, {})
    color = picture.color if picture is not None else ""
    fields = [
        (_TENSOR["name"], _text(builder, spec.name)),
        (_TENSOR["description"], _text(builder, _about(spec, color))),
        (_TENSOR["dimension_names"], _dimension_names(builder, spec)),
        (_TENSOR["content"], _content(builder, spec, color, is_image)),
    ]
    if picture is not None and not spec.dtype.startswith("uint"):
        fields.append((_TENSOR["process_units"], _normalization(builder, picture)))
    if spec.value_range is not None and all(np.isfinite(spec.value_range)):
        fields.append((_TENSOR["stats"], _stats(builder, spec.value_range)))
    spec = replace(spec, labels=spec.labels or _written_labels(spec, request))
    if spec.labels:
        fields.append((_TENSOR["files"], _labels(builder, spec, files)))
    return _table(builder, 7, fields)


def _about(spec: TensorSpec, color: str) -> str:
    """``image, NCHW, BGR: float32[batch, 3, 224, 224]``."""
    words = [word for word in (spec.meaning, spec.layout) if word]
    if color and color not in _COLORS:
        words.append(color.upper())
    return ": ".join(part for part in (", ".join(words), spec.describe()) if part)


def _dimension_names(builder: Any, spec: TensorSpec) -> int:
    """The letters of its layout, or the names of its free dimensions."""
    shape = spec.shape or ()
    if spec.layout is not None and len(spec.layout) == len(shape):
        names = [_LETTERS.get(letter, letter) for letter in spec.layout]
    else:
        names = [dim if isinstance(dim, str) else "" for dim in shape]
    if not any(names):
        return 0
    return _offsets(builder, [builder.CreateString(name) for name in names])


_LETTERS = {"N": "batch", "C": "channel", "H": "height", "W": "width", "T": "time", "D": "depth"}


def _content(builder: Any, spec: TensorSpec, color: str, is_image: bool) -> int:
    """What kind of data it is: an image with its colours and size, or just features."""
    if not is_image:
        return _union(builder, _CONTENT, _FEATURES, _table(builder, 0, []))
    size = _image_size(builder, spec)

    def fields(started: Any) -> None:
        started.PrependInt8Slot(0, _COLORS.get(color, 0), 0)
        started.PrependUOffsetTRelativeSlot(1, size, 0)

    return _union(builder, _CONTENT, _IMAGE, _filled(builder, 2, fields))


def _image_size(builder: Any, spec: TensorSpec) -> int:
    """Its height and width; none where they are free."""
    shape = spec.shape or ()
    sides = dict(zip(spec.layout or "", shape, strict=False))
    width, height = sides.get("W"), sides.get("H")
    if not isinstance(width, int) or not isinstance(height, int):
        return 0

    def fields(started: Any) -> None:
        started.PrependUint32Slot(0, width, 0)
        started.PrependUint32Slot(1, height, 0)

    return _filled(builder, 2, fields)


def _normalization(builder: Any, picture: Picture) -> int:
    """The schema's ``(pixel - mean) / std`` on pixels of 0..255; ours scales them first.

    ``(pixel * scale - m) / s`` is ``(pixel - m / scale) / (s / scale)``.
    """
    parts = (np.asarray(part) / picture.scale for part in (picture.mean, picture.std))
    vectors = [builder.CreateNumpyVector(part.astype(np.float32)) for part in parts]
    options = _table(builder, 2, list(enumerate(vectors)))
    return _offsets(builder, [_union(builder, _UNIT, _NORMALIZATION, options)])


def _stats(builder: Any, ends: tuple[float, float]) -> int:
    """Largest and smallest value."""
    low, high = (builder.CreateNumpyVector(np.asarray([end], np.float32)) for end in ends)
    return _table(builder, 2, [(0, high), (1, low)])


def _written_labels(spec: TensorSpec, request: Request) -> tuple[str, ...]:
    """The names of an output's classes, as many as it has values, as ``answer`` says them."""
    found = (item.get("labels", ()) for item in request.answer if item["kind"] == "classes"
             and item.get("output", spec.name) == spec.name)  # fmt: skip
    labels = tuple(map(str, next(found, ())))
    return labels if labels and spec.shape and spec.shape[-1] == len(labels) else ()


def _labels(builder: Any, spec: TensorSpec, files: dict[str, bytes]) -> int:
    """The file with the names of the last dimension's indices; a line each."""
    name = f"labels_{spec.name}.txt" if files else "labels.txt"
    name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)
    lines = [" ".join(label.split()) for label in spec.labels or ()]
    files[name] = ("\n".join(lines) + "\n").encode()
    text = builder.CreateString(name)
    about = builder.CreateString(f"Names of the classes in {spec.name}, in order.")

    def fields(started: Any) -> None:
        started.PrependUOffsetTRelativeSlot(0, text, 0)
        started.PrependUOffsetTRelativeSlot(1, about, 0)
        started.PrependInt8Slot(2, _AXIS_LABELS, 0)

    return _offsets(builder, [_filled(builder, 5, fields)])


# -- flatbuffers -------------------------------------------------------------------------


def _filled(builder: Any, size: int, fields: Callable[[Any], None]) -> int:
    """A table of ``size`` fields, which ``fields`` sets."""
    builder.StartObject(size)
    fields(builder)
    return int(builder.EndObject())


def _table(builder: Any, size: int, offsets: Sequence[tuple[int, int]]) -> int:
    """A table of references; 0 is none."""

    def fields(started: Any) -> None:
        for slot, offset in offsets:
            started.PrependUOffsetTRelativeSlot(slot, offset, 0)

    return _filled(builder, size, fields)


def _union(builder: Any, slots: Mapping[str, int], kind: int, value: int) -> int:
    """A table of a union, and nothing else that is set."""
    first, second = slots.values()

    def fields(started: Any) -> None:
        started.PrependUint8Slot(first, kind, 0)
        started.PrependUOffsetTRelativeSlot(second, value, 0)

    return _filled(builder, max(slots.values()) + 1, fields)


def _offsets(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _text(builder: Any, text: str) -> int:
    return int(builder.CreateString(text)) if text else 0
