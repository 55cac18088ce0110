"""The arrays of a package's samples, read from their files; and texts of them, shown."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

FACTS = "modelyard.json"
"""What the package is: names, types, limits, and the files of its samples."""


def arrays(folder: Path, items: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The arrays by name; of bfloat16 the same numbers in float32."""
    return {name: _array(folder / item["file"], item) for name, item in items.items()}


def _array(path: Path, item: Mapping[str, Any]) -> Any:
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    return from_bytes(path.read_bytes(), item["dtype"]).reshape(item["shape"])


def from_bytes(data: bytes, dtype: str) -> Any:
    """The values in raw little-endian bytes; strings each lie behind their length."""
    if dtype == "bfloat16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype != "string":
        return np.frombuffer(data, np.dtype(dtype).newbyteorder("<")).astype(dtype)
    texts = []
    while data:
        end = 4 + struct.unpack("<I", data[:4])[0]
        texts.append(data[4:end].decode())
        data = data[end:]
    return np.array(texts, object)


def to_bytes(array: Any, dtype: str) -> bytes:
    """The values as raw little-endian bytes."""
    if dtype == "string":
        texts = [str(item).encode() for item in array.ravel().tolist()]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        return (bits >> 16).astype("<u2").tobytes()
    return np.ascontiguousarray(array).astype(np.dtype(dtype).newbyteorder("<")).tobytes()


def to_lists(array: Any) -> Any:
    """The values as JSON has them, in nested lists: null is NaN, which JSON has none of."""
    if array.dtype.kind != "f" or not np.isnan(array).any():
        return array.tolist()
    return np.where(np.isnan(array), np.array(None), array).tolist()


def shown(value: Any) -> str:
    """The text of a value, with what a terminal would take for a command as visible escapes."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))
