"""Says what a file that isn't what it should be looks like, from its first bytes."""

from __future__ import annotations

import os
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from converter.files.archives import opened
from converter.files.signatures import all_marks

_MAGIC = (
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ", "an xz archive"),
    (0, b"7z\xbc\xaf", "a 7z archive"),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (0, b"GGUF", "a GGUF model"),
    (0, b"\x93NUMPY", "a NumPy array (.npy)"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"version https://git-lfs", "a Git LFS pointer: the model itself was not fetched"),
    (257, b"ustar", "a tar archive"),
)
_PROBE = 4096
_ONNX_FIELDS = {
    **dict.fromkeys((1, 5), 0),  # ir_version, model_version: numbers
    **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), 2),  # the rest has a length
}
_GRAPH, _OPSETS = 7, 8


def looks_like(path: Path) -> str:
    """What ``path`` looks like, in words with an article; empty where nothing is recognized.

    A protobuf is never recognized: it has no mark of its own.

    Raises:
        OSError: It can't be read.
    """
    if path.is_dir():
        return "a folder"
    with path.open("rb") as file:
        head = file.read(_PROBE)
    if not head:
        return "an empty file"
    for offset, magic, what in (*_MAGIC, *(row for marks in all_marks() for row in marks.magic)):
        if head[offset : offset + len(magic)] == magic:
            return what
    if head.startswith(b"PK\x03\x04"):
        return _zip(path)
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size:
        return "a safetensors file"
    return _text(head)


def _zip(path: Path) -> str:
    try:
        with opened(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return "a zip archive that is cut short"
    for member, what in (row for marks in all_marks() for row in marks.archives):
        if any(re.search(member, name) for name in names):
            return what
    if names and all(name.endswith(".npy") for name in names):
        return "NumPy arrays (.npz)"
    return "a zip archive"


def _text(head: bytes) -> str:
    if len(head) == _PROBE:
        head = head[:-4]  # the last character may have been cut
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    if any(ord(char) < 32 and char not in "\t\n\r\f" for char in text):
        return ""
    start = text.lstrip().lower()
    if start.startswith(("{", "[")):
        return "JSON text"
    if start.startswith(("<!doctype html", "<html")):
        return "an HTML page, not the file behind it"
    return "XML text" if start.startswith("<?xml") else "a text file"


@dataclass(frozen=True)
class OnnxOutline:
    """The outermost fields of what may be an ONNX file (onnx.proto, ``ModelProto``).

    Attributes:
        fields: The numbers of the fields that were met.
        missing: Bytes by which the file is too short for the last of them.
        foreign: Whether something was met that is no field of an ONNX model.
    """

    fields: frozenset[int]
    missing: int
    foreign: bool

    @property
    def is_onnx(self) -> bool:
        """Whether it holds a graph and its opsets, whole, and nothing else."""
        return {_GRAPH, _OPSETS} <= self.fields and not self.missing and not self.foreign

    @property
    def is_cut_short(self) -> bool:
        """Whether it is an ONNX model as far as it goes, and ends in the middle."""
        return self.missing > 0 and bool(self.fields) and not self.foreign


def onnx_outline(path: Path) -> OnnxOutline:
    """Walks over the outermost fields of a file without reading what is in them.

    Raises:
        OSError: It can't be read.
    """
    fields: set[int] = set()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while file.tell() < size:
            tag = varint(file)
            if tag is None:
                return OnnxOutline(frozenset(fields), 1, foreign=False)
            number, wire = tag >> 3, tag & 7
            if _ONNX_FIELDS.get(number) != wire:
                return OnnxOutline(frozenset(fields), 0, foreign=True)
            fields.add(number)
            length = varint(file)
            if length is None:
                return OnnxOutline(frozenset(fields), 1, foreign=False)
            if wire == 2:
                if file.tell() + length > size:
                    return OnnxOutline(
                        frozenset(fields), file.tell() + length - size, foreign=False
                    )
                file.seek(length, os.SEEK_CUR)
    return OnnxOutline(frozenset(fields), 0, foreign=False)


def varint(file: BinaryIO) -> int | None:
    """A number as protobuf writes it; None where the file ends in it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return 0
