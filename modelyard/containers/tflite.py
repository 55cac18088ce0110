"""TFLite files to and from the schema's object classes, with a bound on what a file may ask for.

A flatbuffer is tables that point at one another. A damaged or hostile one points outside the
file, or at the same table a million times. Reading outside raises; the objects made are
counted against the file's size, so that a small file can't grow into a large model.

Source of the format: ``tflite.fbs``, schema version 3; ``schema_py_generated`` of ai-edge-litert.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from converter.errors import ModelError, ModelyardError

IDENTIFIER = b"TFL3"
"""The file's mark, at offset 4."""

VERSION = 3
"""The schema's version that files carry."""

ALIGNMENT = 16
"""Of buffers, in bytes (``force_align: 16`` in the schema)."""

_BROKEN = (
    struct.error,
    IndexError,
    ValueError,  # UnicodeDecodeError too
    TypeError,
    OverflowError,
    AttributeError,
    KeyError,
    MemoryError,
    RecursionError,
)
"""What the generated classes raise when offsets lead nowhere."""

LARGEST = (1 << 31) - 1
"""Bytes that a flatbuffer can hold; larger models keep their buffers behind it."""


def unpack(content: bytes | mmap.mmap, name: str) -> Any:
    """The file's objects: a ``schema.ModelT``; constant buffers are views of ``content``.

    Args:
        content: The whole file; mapped, where it is large.
        name: Its name, for messages.

    Raises:
        ModelError: It isn't a TFLite file, is cut short, or its offsets lead nowhere.
    """
    if len(content) < 8 or content[4:8] != IDENTIFIER:
        raise ModelError(
            f"{name} is not a TFLite file: it has no {IDENTIFIER.decode()} mark",
            code="model-damaged",
        )
    try:
        return _Unpacking(content, name).model()
    except ModelyardError:
        raise
    except _BROKEN as error:
        raise ModelError(
            f"{name} is damaged: reading its tables failed ({type(error).__name__}: {error})",
            code="model-damaged",
            hint="Fetch or copy it again, or convert the original again.",
        ) from error


def pack(model: Any, name: str) -> bytes:
    """A ``schema.ModelT`` as a file.

    Raises:
        ModelError: It doesn't fit into a flatbuffer (2 GiB).
    """
    size = sum(len(b.data) for b in model.buffers or () if b.data is not None)
    if size >= LARGEST - (64 << 20):
        raise ModelError(
            f"{name} doesn't fit into one flatbuffer once its state is explicit",
            code="model-too-large",
        )
    builder = AlignedBuilder(size + (size >> 3) + (1 << 16))
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


class AlignedBuilder(flatbuffers.Builder):  # type: ignore[misc]
    """Puts byte vectors on the alignment that the schema asks for, which the library ignores."""

    head: int

    def CreateNumpyVector(self, x: Any) -> int:
        if x.dtype.itemsize != 1:
            return int(super().CreateNumpyVector(x))
        payload = x.tobytes()
        self.StartVector(1, len(payload), ALIGNMENT)
        head = self.head - len(payload)
        self.head = head
        self.Bytes[head : head + len(payload)] = payload
        self.vectorNumElems = len(payload)
        return int(self.EndVector())


class _Unpacking:
    """One file being read."""

    def __init__(self, content: bytes | mmap.mmap, name: str) -> None:
        self._content = content
        self._name = name
        # A table takes 4 bytes where it is listed and 4 of its own; strings take their length.
        self._left = len(content) + 1024

    def model(self) -> Any:
        root = schema.Model.GetRootAs(self._content, 0)
        made = schema.ModelT()
        made.version = root.Version()
        if made.version != VERSION:
            raise ModelError(
                f"{self._name} has the schema version {made.version}; Modelyard reads "
                f"version {VERSION}",
                code="opset",
                hint="Convert the original again with a converter of 2018 or later.",
            )
        made.description = root.Description()
        made.operatorCodes = self._all(
            root.OperatorCodesLength(), root.OperatorCodes, schema.OperatorCodeT
        )
        made.subgraphs = [
            self._subgraph(item) for item in _each(root.SubgraphsLength(), root.Subgraphs)
        ]
        made.buffers = self._all(root.BuffersLength(), root.Buffers, schema.BufferT)
        made.metadata = self._all(root.MetadataLength(), root.Metadata, schema.MetadataT)
        made.signatureDefs = self._all(
            root.SignatureDefsLength(), root.SignatureDefs, schema.SignatureDefT
        )
        self._fill_buffers(made.buffers)
        return made

    def _subgraph(self, table: Any) -> Any:
        made = schema.SubGraphT()
        made.name = table.Name()
        made.inputs = _integers(table.InputsAsNumpy())
        made.outputs = _integers(table.OutputsAsNumpy())
        self._charge(made)
        made.tensors = self._all(table.TensorsLength(), table.Tensors, schema.TensorT)
        made.operators = self._all(table.OperatorsLength(), table.Operators, schema.OperatorT)
        return made

    def _all(self, count: int, get: Callable[[int], Any], kind: Any) -> list[Any]:
        made = []
        for table in _each(count, get):
            made.append(kind.InitFromObj(table))
            self._charge(made[-1])
        return made

    def _charge(self, made: Any) -> None:
        """Takes what an object must have taken in the file from what the file can hold."""
        self._left -= _size(made)
        if self._left < 0:
            raise ModelError(
                f"{self._name} is damaged: its tables claim more bytes than the file has",
                code="model-damaged",
                hint="Fetch or copy it again, or convert the original again.",
            )

    def _fill_buffers(self, buffers: list[Any]) -> None:
        """Buffers that lie behind the flatbuffer (models above 2 GiB) become views of it."""
        for index, buffer in enumerate(buffers):
            if buffer.offset <= 1 and buffer.data is None:
                continue
            if buffer.offset > 1:
                end = buffer.offset + buffer.size
                if end > len(self._content):
                    raise ModelError(
                        f"{self._name} is cut short: buffer {index} ends at byte {end} of "
                        f"{len(self._content)}",
                        code="model-damaged",
                    )
                buffer.data = np.frombuffer(self._content, np.uint8, buffer.size, buffer.offset)
                buffer.offset = buffer.size = 0


def _each(count: int, get: Callable[[int], Any]) -> Iterator[Any]:
    for index in range(count):
        table = get(index)
        if table is None:
            raise ValueError("a table is missing")
        yield table


def _integers(values: Any) -> Any:
    """A vector of numbers; the generated classes give 0 for one that is left out."""
    return np.zeros(0, np.int32) if isinstance(values, int) else values


def _size(item: Any) -> int:
    """Bytes that an object took in the file, at least."""
    if item is None or isinstance(item, (int, float, np.ndarray)):
        return 0  # numbers lie in their table; arrays are views
    if isinstance(item, (bytes, str)):
        return len(item)
    if isinstance(item, list):
        return sum(4 + _size(part) for part in item)
    return 8 + sum(_size(value) for value in vars(item).values())
