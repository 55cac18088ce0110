"""Arrays as the Open Inference Protocol has them: its names of types, raw bytes, JSON."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_PLAIN = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
DATATYPES = {name: name.upper() for name in _PLAIN} | {
    "float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64", "string": "BYTES",
}  # fmt: skip
"""The protocol's name of each of our types."""

DTYPES = {theirs: ours for ours, theirs in DATATYPES.items()}


def name_of(array: Array) -> str:
    """Our name of an array's type."""
    return "string" if array.dtype.kind in "OSU" else array.dtype.name


def to_bytes(array: Array) -> bytes:
    """The values one after another, little-endian; strings each behind their length."""
    if array.dtype.kind in "OSU":
        values = [v if isinstance(v, bytes) else str(v).encode() for v in array.reshape(-1)]
        return b"".join(struct.pack("<I", len(value)) + value for value in values)
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def from_bytes(data: bytes, dtype: str, shape: Sequence[int]) -> Array:
    """The array of what :func:`to_bytes` gives.

    Args:
        data: Little-endian numbers; each text with its length before it, uint32.
        dtype: The name of a TensorSpec's dtype.
        shape: The array's.
    """
    if dtype != "string":
        return np.frombuffer(data, numpy_type(dtype)).reshape(shape)
    found, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return from_values(found, dtype, shape)


def from_values(values: Any, dtype: str, shape: Sequence[int] | None = None) -> Array:
    """The array of values from JSON.

    Args:
        values: Nested lists, or a flat one.
        dtype: The name of a TensorSpec's dtype.
        shape: The array's; None for that of the nested lists.
    """
    made = np.array(values, object if dtype == "string" else numpy_type(dtype))
    return made if shape is None else made.reshape(shape)


def to_lists(array: Array) -> Any:
    """The values as JSON has them, in nested lists: null is NaN, which JSON has none of."""
    if array.dtype.kind != "f" or not np.isnan(array).any():
        return array.tolist()
    return np.where(np.isnan(array), np.array(None), array).tolist()


def numpy_type(dtype: str) -> np.dtype[Any]:
    """NumPy's type of ours; little-endian."""
    if dtype == "bfloat16":
        import ml_dtypes

        bits: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bits
    made: np.dtype[Any] = np.dtype(dtype).newbyteorder("<")
    return made
