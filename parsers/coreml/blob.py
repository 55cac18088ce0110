"""A package's file of weights: a header, then for each tensor a record that says where it lies.

Source of the format: ``MILBlob`` in coremltools (``Blob/StorageFormat.hpp``), version 2: 64 bytes
with the number of tensors and the version; each record is 64 bytes, begins with a mark, and holds
the type, the bytes, the place, and for types below a byte how many bits at the end are unused.
Numbers are little-endian; tensors of types below a byte are packed, the first in the lowest bits.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir

from converter.errors import ModelError, from_os_error
from converter.ir.mapped import Mapped

Array = np.ndarray[Any, Any]
DataType = onnx_ir.DataType

_MARK = 0xDEADBEEF
_VERSION = 2
_HEADER = struct.Struct("<II")
_RECORD = struct.Struct("<IIQQQ")

_WHOLE = {
    1: DataType.FLOAT16,
    2: DataType.FLOAT,
    3: DataType.UINT8,
    4: DataType.INT8,
    5: DataType.BFLOAT16,
    6: DataType.INT16,
    7: DataType.UINT16,
    14: DataType.INT32,
    15: DataType.UINT32,
    16: DataType.FLOAT8E4M3FN,
    17: DataType.FLOAT8E5M2,
}
_BITS = {
    8: (4, True),
    9: (1, False),
    10: (2, False),
    11: (4, False),
    12: (3, False),
    13: (6, False),
}
"""Types below a byte: their bits, and whether they are signed."""


@dataclass(frozen=True)
class BlobTensor:
    """One tensor of the file.

    Attributes:
        path: The file.
        offset, size: Where its bytes lie, and how many.
        kind: The type's number in the format.
        unused: Bits at the end that hold nothing.
    """

    path: Path
    offset: int
    size: int
    kind: int
    unused: int

    @property
    def dtype(self) -> DataType:
        """Its type in ONNX: integers below a byte become int8 and uint8."""
        if self.kind in _BITS:
            return DataType.INT8 if _BITS[self.kind][1] else DataType.UINT8
        return _WHOLE[self.kind]

    def tensor(self, shape: tuple[int, ...], name: str) -> onnx_ir.TensorProtocol:
        """The tensor, left in the file where its type has whole bytes.

        Raises:
            ModelError: It has another number of elements.
        """
        if self.kind in _BITS:
            return onnx_ir.Tensor(self._unpacked(shape), name=name)
        expected = int(np.prod(shape, dtype=np.int64) * self.dtype.itemsize)
        if expected != self.size:
            raise ModelError(
                f"{self.path.name}: {name} needs {expected} bytes, but its record says {self.size}",
                code="model-damaged",
            )
        if self.path.stat().st_nlink > 1:  # onnx_ir itself refuses a file of several names
            mapped = np.memmap(self.path, np.uint8, "r")[self.offset : self.offset + self.size]
            array = mapped.view(self.dtype.numpy()).reshape(shape)
            return onnx_ir.Tensor(array, dtype=self.dtype, name=name)
        return Mapped(
            self.path.name,
            self.offset,
            self.size,
            self.dtype,
            shape=onnx_ir.Shape(shape),
            name=name,
            base_dir=str(self.path.parent),
        )

    def _unpacked(self, shape: tuple[int, ...]) -> Array:
        bits, signed = _BITS[self.kind]
        count = int(np.prod(shape, dtype=np.int64))
        with self.path.open("rb") as file:
            file.seek(self.offset)
            packed = np.frombuffer(file.read(self.size), np.uint8)
        if packed.size * 8 - self.unused != count * bits:
            raise ModelError(
                f"{self.path.name}: a tensor of {count} elements has another size",
                code="model-damaged",
            )
        single = np.unpackbits(packed, bitorder="little")[: count * bits].reshape(count, bits)
        numbers = (single << np.arange(bits, dtype=np.uint8)).sum(axis=1).astype(np.uint8)
        if signed:
            numbers = (numbers.astype(np.int16) - ((numbers >> (bits - 1)) << bits)).astype(np.int8)
        shaped: Array = numbers.reshape(shape)
        return shaped


def bits_of(kind: int) -> int | None:
    """Of a type below a byte, by its number; None for others."""
    return _BITS[kind][0] if kind in _BITS else None


class Blob:
    """A file of weights.

    Raises:
        ModelError: It isn't there, isn't such a file, or is of another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._size = path.stat().st_size
            with path.open("rb") as file:
                header = file.read(_HEADER.size)
        except FileNotFoundError as error:
            raise ModelError(
                f"the package's file of weights, {path.name}, is missing",
                code="model-damaged",
                hint="Copy the package again, as a whole folder.",
            ) from error
        except OSError as error:
            raise from_os_error(error, f"reading {path.name}") from error
        version = _HEADER.unpack(header)[1] if len(header) == _HEADER.size else None
        if version != _VERSION:
            raise ModelError(
                f"{path.name} isn't a file of weights of version {_VERSION}: {version}",
                code="model-damaged",
            )

    def at(self, offset: int) -> BlobTensor:
        """The tensor whose record lies at an offset.

        Raises:
            ModelError: There is no record, or the file ends before its tensor does.
        """
        with self.path.open("rb") as file:
            file.seek(offset)
            record = file.read(_RECORD.size)
        if len(record) < _RECORD.size:
            raise self._cut(offset)
        mark, kind, size, place, unused = _RECORD.unpack(record)
        if mark != _MARK or kind not in {*_WHOLE, *_BITS}:
            raise ModelError(
                f"{self.path.name} is damaged: there is no tensor's record at byte {offset}",
                code="model-damaged",
                hint="Copy the package again, as a whole folder.",
            )
        if place + size > self._size:
            raise self._cut(place + size)
        return BlobTensor(self.path, place, size, kind, unused)

    def _cut(self, end: int) -> ModelError:
        return ModelError(
            f"{self.path.name} is cut short: it has {self._size} bytes, but the model needs "
            f"the bytes up to {end}",
            code="model-damaged",
            hint="Copy the package again, as a whole folder.",
        )
