"""``assets.extra/tf_serving_warmup_requests``: what TensorFlow Serving runs before it serves.

A TFRecord file of ``tensorflow.serving.PredictionLog`` messages. They are written here as
protobuf's wire format has them: the classes come with ``tensorflow-serving-api``, which imports
TensorFlow, and that runs in no process of ours. Numbers of fields are those of
``tensorflow_serving/apis`` and of ``tensorflow/core/framework`` (``tensor.proto``,
``types.proto``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

FILE = "tf_serving_warmup_requests"

TYPES = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7,
    "int64": 9, "bool": 10, "uint16": 17, "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip
"""TensorFlow's numbers of types."""

_POLYNOMIAL = 0x82F63B78
_MASK = 0xA282EAD8
_WORD = 0xFFFFFFFF


def records(messages: Iterable[bytes]) -> bytes:
    """A TFRecord file: each message behind its length, both with a masked CRC-32C."""
    found = bytearray()
    for message in messages:
        length = struct.pack("<Q", len(message))
        found += length + _masked(length) + message + _masked(message)
    return bytes(found)


def prediction_log(name: str, signature: str, inputs: Mapping[str, tuple[str, Any]]) -> bytes:
    """A ``PredictionLog`` of one request.

    Args:
        name: The model's.
        signature: Of the SavedModel.
        inputs: Type and array of each, by name.
    """
    spec = _text(1, name) + _text(3, signature)
    entries = [
        _field(2, _text(1, key) + _field(2, _tensor(dtype, array)))
        for key, (dtype, array) in inputs.items()
    ]
    request = _field(1, spec) + b"".join(entries)
    return _field(6, _field(1, request))


def _tensor(dtype: str, array: Any) -> bytes:
    sizes = b"".join(_field(2, _number(1, size)) for size in np.shape(array))
    head = _number(1, TYPES[dtype]) + _field(2, sizes)
    if dtype == "string":
        return head + b"".join(_text(8, str(text)) for text in np.ravel(array).tolist())
    little = np.ascontiguousarray(array, np.dtype(dtype).newbyteorder("<"))
    return head + _field(4, little.tobytes())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _masked(data: bytes) -> bytes:
    """A CRC-32C (Castagnoli), turned by 15 bits, plus a constant: as TFRecords have it."""
    sums, crc = _table(), _WORD
    for byte in data:
        crc = sums[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= _WORD
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & _WORD)


@cache
def _table() -> Sequence[int]:
    made = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        made.append(value)
    return made
