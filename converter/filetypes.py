"""Says what a file that isn't what it should be looks like, from its first bytes."""

from __future__ import annotations

import zipfile
from pathlib import Path

_MAGIC = (
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes (.h5)"),
    (4, b"TFL3", "a TensorFlow Lite model (.tflite)"),
    (4, b"ORTM", "ONNX Runtime's own format (.ort)"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ", "an xz archive"),
    (0, b"7z\xbc\xaf", "a 7z archive"),
    (0, b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (0, b"GGUF", "a GGUF model"),
    (0, b"\x93NUMPY", "a NumPy array (.npy)"),
    (0, b"\x80\x02", "a Python pickle, as PyTorch writes (.pth, .pt)"),
    (0, b"\x80\x03", "a Python pickle, as PyTorch writes (.pth, .pt)"),
    (0, b"\x80\x04", "a Python pickle, as PyTorch writes (.pth, .pt)"),
    (0, b"\x80\x05", "a Python pickle, as PyTorch writes (.pth, .pt)"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"version https://git-lfs", "a Git LFS pointer: the model itself was not fetched"),
    (257, b"ustar", "a tar archive"),
)
_PROBE = 4096


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
    for offset, magic, what in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return what
    if head.startswith(b"PK\x03\x04"):
        return _zip(path)
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size:
        return "a safetensors file"
    return _text(head)


def _zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        return "a zip archive that is cut short"
    if any(name.endswith(("data.pkl", "/constants.pkl")) for name in names):
        return "a PyTorch file (.pth, .pt)"
    if any("model.json" in name or "archive_format" in name for name in names):
        return "a PyTorch exported program (.pt2)"
    if "config.json" in names and any(name.endswith(".weights.h5") for name in names):
        return "a Keras model (.keras)"
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
        return "a web page, not the file behind it"
    return "XML text" if start.startswith("<?xml") else "a text file"
