"""What TFLite metadata says of preparation and labels.

Source of the format: ``metadata_schema.fbs`` of TensorFlow Lite Support, identifier ``M001``; a
flatbuffer of its own in the file's metadata ``TFLITE_METADATA``. The numbers below are fields'
order in its tables. Labels are files in an archive behind the model.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from flatbuffers import encode, number_types
from flatbuffers.table import Table

from converter.ir.model import Model, TensorSpec
from converter.preparation.suggested import IMAGES, Suggested

NAME, IDENTIFIER = b"TFLITE_METADATA", b"M001"

_SUBGRAPHS = 3
_INPUTS, _OUTPUTS = 2, 3
_DESCRIPTION, _CONTENT, _UNITS, _FILES = 1, 3, 4, 6
_IMAGE, _NORMALIZATION, _AXIS_LABELS = 2, 1, 2
"""Numbers in the unions ContentProperties and ProcessUnitOptions, and in AssociatedFileType."""

_MOST, _LONGEST = 100, 1 << 20
"""Tables in a list, and bytes of a file of labels, that are read."""

_BROKEN = (struct.error, IndexError, ValueError, TypeError, OverflowError, BadZipFile, zlib.error,
           EOFError, NotImplementedError, RuntimeError)  # fmt: skip
"""What offsets that lead nowhere and damaged archives raise."""


@dataclass(frozen=True)
class Told:
    """What the metadata says of an input or output.

    Attributes:
        image: Whether it is a picture.
        bgr: Whether that is in blue, green, red.
        mean, std: What is taken from pixels of 0..255, and what they are divided by; none where it
            says nothing.
        labels: The names of its last axis's indices.
    """

    image: bool = False
    bgr: bool = False
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Metadata:
    """What the metadata says.

    Attributes:
        inputs, outputs: In the subgraph's order.
        problem: Why it isn't read.
    """

    inputs: list[Told] = field(default_factory=list)
    outputs: list[Told] = field(default_factory=list)
    problem: str = ""


def metadata_of(source: Any, content: bytes, subgraph: int) -> Metadata:
    """The metadata of a file; empty where it has none.

    Args:
        source: As :func:`modelyard.containers.tflite.unpack` gives it.
        content: The file, of which an archive may be the end.
        subgraph: Which subgraph's.
    """
    items = [item for item in source.metadata or () if item.name == NAME]
    try:
        stored = bytes(source.buffers[items[0].buffer].data) if items else b""
        if stored[4:8] != IDENTIFIER:
            return Metadata()
        root = Table(stored, encode.Get(number_types.UOffsetTFlags.packer_type, stored, 0))
        (known,) = list(_tables(root, _SUBGRAPHS))[subgraph : subgraph + 1] or [None]
        if known is None:
            return Metadata()
        sides = (list(_tables(known, side)) for side in (_INPUTS, _OUTPUTS))
        inputs, outputs = ([_told(table, content) for table in side] for side in sides)
    except _BROKEN as error:
        return Metadata(problem=f"the file's metadata can't be read: {error}")
    return Metadata(inputs, outputs)


def suggested(
    model: Model, told: Metadata, inputs: Iterable[str], outputs: Iterable[str]
) -> Mapping[str, Any]:
    """Describes a model's outputs; what is known of its pictures, for ``Model.source``.

    Args:
        model: The model, with its interface.
        told: The metadata.
        inputs: The model's names, in the subgraph's order.
        outputs: The model's names, in the subgraph's order.
    """
    specs = {spec.name: spec for spec in (*model.inputs, *model.outputs)}
    origins, notes = {}, [told.problem] if told.problem else []
    for name, item in zip(outputs, told.outputs, strict=False):
        shape = specs[name].shape if name in specs else None
        if item.labels and shape and shape[-1] == len(item.labels):
            model.describe(name, meaning="scores", labels=item.labels)
            origins["answer (classes)"] = "the file's labels"
        elif item.labels:
            notes.append(f"the file has {len(item.labels)} labels for {name}, which don't fit it")
    options: dict[str, Any] = {}
    pictures = list(zip(inputs, told.inputs, strict=False))
    if len(model.inputs) == 1 and len(pictures) == 1 and pictures[0][0] in specs:
        options = _options(specs[pictures[0][0]], pictures[0][1], notes)
    if options:
        origins["prepare (picture)"] = "the file's metadata"
    said = Suggested(origins=origins, notes=notes).told()
    return {**({IMAGES: options} if options else {}), **said}


def _options(spec: TensorSpec, told: Told, notes: list[str]) -> dict[str, Any]:
    """Options of images that say the same."""
    if not told.image or spec.rank != 4:
        return {}
    color = {"image_color": "bgr"} if told.bgr else {}
    if not told.mean or not (spec.is_float or spec.scale is not None):
        return color
    if spec.scale is not None and not spec.is_float:
        ends = np.iinfo(spec.dtype)
        low, high = ((end - (spec.zero_point or 0)) * spec.scale for end in (ends.min, ends.max))
        mean, std = np.array(told.mean), np.array(told.std)
        most = max(np.max((255 - mean) / std) - high, low - np.min(-mean / std))
        if most > 0.05 * (high - low):  # of pixels as they are, which this is no scale of
            notes.append(f"the file's metadata: its normalization doesn't fit {spec.name}")
            return color
    values = {"image_mean": list(told.mean), "image_std": list(told.std)}
    return {"image_scale": 1.0, **values, **color}


def _told(table: Table, content: bytes) -> Told:
    kind, image = _union(table, _CONTENT)
    colour = _byte(image, 0) if kind == _IMAGE and image is not None else 0
    about = _text(table, _DESCRIPTION)
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    for unit in _tables(table, _UNITS):
        way, options = _union_of(unit, 0)
        if way == _NORMALIZATION and options is not None:
            mean, std = _floats(options, 0), _floats(options, 1)
    if len(mean) not in (1, 3) or len(mean) != len(std) or not all(std):
        mean = std = ()
    bgr = kind == _IMAGE and not colour and bool(re.search(r"\bBGR\b", about))
    return Told(kind == _IMAGE, bgr, mean, std, _labels(table, content))


def _labels(table: Table, content: bytes) -> tuple[str, ...]:
    """The lines of the first file of labels that is for no language."""
    for file in _tables(table, _FILES):
        if _byte(file, 2) == _AXIS_LABELS and not _text(file, 3):
            with ZipFile(BytesIO(content)) as archive:
                name = _text(file, 0)
                if name not in archive.namelist() or archive.getinfo(name).file_size > _LONGEST:
                    raise ValueError(f"it has no file {name}")
                return tuple(archive.read(name).decode("utf-8").splitlines())
    return ()


# -- flatbuffers -------------------------------------------------------------------------


def _place(table: Table, slot: int) -> int:
    """Where a field lies; 0 where it is left out."""
    offset = int(table.Offset(4 + 2 * slot))
    return offset and int(table.Pos) + offset


def _tables(table: Table, slot: int) -> Iterator[Table]:
    """A list of tables."""
    if not _place(table, slot):
        return
    offset = table.Offset(4 + 2 * slot)
    start, count = table.Vector(offset), table.VectorLen(offset)
    if count > _MOST:
        raise ValueError(f"a list of {count} tables")
    yield from (Table(table.Bytes, table.Indirect(start + 4 * i)) for i in range(count))


def _union(table: Table, slot: int) -> tuple[int, Table | None]:
    """What a table in a field holds: its kind, and it."""
    place = _place(table, slot)
    return _union_of(Table(table.Bytes, table.Indirect(place)), 0) if place else (0, None)


def _union_of(table: Table, slot: int) -> tuple[int, Table | None]:
    place = _place(table, slot + 1)
    return _byte(table, slot), Table(table.Bytes, table.Indirect(place)) if place else None


def _byte(table: Table, slot: int) -> int:
    place = _place(table, slot)
    return int(table.Bytes[place]) if place else 0


def _text(table: Table, slot: int) -> str:
    place = _place(table, slot)
    return bytes(table.String(place)).decode("utf-8") if place else ""


def _floats(table: Table, slot: int) -> tuple[float, ...]:
    if not _place(table, slot):
        return ()
    found = table.GetVectorAsNumpy(number_types.Float32Flags, table.Offset(4 + 2 * slot))
    return tuple(map(float, found[:4]))
