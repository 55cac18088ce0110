"""An ONNX file in pieces, so that no weight is copied to write it.

What comes out is, byte for byte, what protobuf writes: fields in the order of their numbers
(protobuf's "Encoding"; the numbers are those of onnx.proto). A message is written around its
weights by hand: what comes before them, each weight's own message, what comes after.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO

import onnx
import onnx_ir
from google.protobuf.message import DecodeError, Message
from onnx_ir.serde import TensorProtoTensor

from converter.errors import ModelError
from converter.files.filetypes import varint
from converter.ir.external import PROTOBUF_LIMIT, replaced, write_tensor
from converter.ir.onnx_walk import all_graphs

_STREAMED_FROM = 1 << 16
"""Bytes of a weight from which it isn't copied into a message."""

_GRAPH = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
_INITIALIZER = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
_RAW_DATA = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number
_NUMBER, _BYTES = 0, 2
"""Wire types: a number as a varint; messages and byte strings, whose length goes before them."""

Piece = bytes | onnx_ir.TensorProtocol
"""Bytes as they are, or a tensor of which the bytes are meant."""


def pieces(
    graph: onnx_ir.Model, metadata: Mapping[str, str], *, streamed: bool = True
) -> list[Piece]:
    """A model's file, in order.

    Args:
        graph: The model; it stays as it is.
        metadata: What is added to its own.
        streamed: Whether large weights are pieces; else they are as they are in the model, mapped
            ones references.

    Raises:
        ModelError: It is larger than a protobuf may be.
    """
    if streamed and any(_streamable(value) for value in graph.graph.initializers.values()):
        graph = graph.clone()  # others may read this one, and weights are taken out
    values = graph.graph.initializers.values() if streamed else ()
    weights = {value: tensor for value in values if (tensor := _streamable(value)) is not None}
    with replaced({value: _stand_in(tensor) for value, tensor in weights.items()}):
        proto = as_proto(graph)
    for key, text in metadata.items():
        proto.metadata_props.add(key=key, value=text)
    if proto.ByteSize() >= PROTOBUF_LIMIT:
        raise _too_large()
    held = {value.name: tensor for value, tensor in weights.items()}
    before, after = _split(proto.graph, _INITIALIZER)
    inner: list[Piece] = [before]
    for item in proto.graph.initializer:
        inner += _message(_INITIALIZER, _initializer(item, held.get(item.name)))
    head, tail = _split(proto, _GRAPH)
    made = [head, *_message(_GRAPH, [*inner, after]), tail]
    if size_of(made) >= PROTOBUF_LIMIT:
        raise _too_large()
    return made


def as_proto(graph: onnx_ir.Model) -> onnx.ModelProto:
    """A model as a protobuf, without what ``value_info`` says of initializers: they say it
    themselves, and quantizers that give one another type stumble over the old one there."""
    proto = onnx_ir.to_proto(graph)
    for part in all_graphs(proto):
        held = {tensor.name for tensor in part.initializer}
        others = [value for value in part.value_info if value.name not in held]
        if len(others) < len(part.value_info):
            del part.value_info[:]
            part.value_info.extend(others)
    return proto


def _streamable(value: onnx_ir.Value) -> onnx_ir.TensorProtocol | None:
    """An initializer's tensor, where it is large and its bytes are at hand."""
    tensor = value.const_value
    if isinstance(tensor, TensorProtoTensor):
        return tensor if len(tensor.raw.raw_data) >= _STREAMED_FROM else None
    if not isinstance(tensor, onnx_ir.Tensor | onnx_ir.LazyTensor):
        return None
    if tensor.dtype == onnx_ir.DataType.STRING:
        return None
    return tensor if tensor.nbytes >= _STREAMED_FROM else None


def size_of(made: list[Piece]) -> int:
    """How many bytes the pieces have."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.nbytes for piece in made)


def _too_large() -> ModelError:
    return ModelError(
        "the model doesn't fit into one file (2 GiB)",
        code="model-too-large",
        hint="Keep its weights in a file of their own: --external-data.",
    )


def write(made: list[Piece], file: IO[bytes]) -> None:
    """Writes the pieces, one weight at a time."""
    for piece in made:
        if isinstance(piece, bytes):
            file.write(piece)
        else:
            write_tensor(piece, file)


def _stand_in(tensor: onnx_ir.TensorProtocol) -> onnx_ir.TensorProtocol:
    """What says all of a tensor but its contents."""
    return onnx_ir.ExternalTensor(
        "",
        None,
        None,
        tensor.dtype,
        shape=onnx_ir.Shape(tensor.shape.numpy()),
        name=tensor.name or "",
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _initializer(item: onnx.TensorProto, tensor: onnx_ir.TensorProtocol | None) -> list[Piece]:
    """A weight's message; ``tensor`` is what it stands in for, None where it has its contents."""
    if tensor is None:
        return [item.SerializeToString(deterministic=True)]
    item.ClearField("external_data")
    item.ClearField("data_location")
    before, after = _split(item, _RAW_DATA)
    return [before, _head(_RAW_DATA, tensor.nbytes), tensor, after]


def _message(number: int, content: list[Piece]) -> list[Piece]:
    return [_head(number, size_of(content)), *content]


def _head(number: int, size: int) -> bytes:
    """What goes before a field's bytes: its number, its wire type, how many they are."""
    return _varint(number << 3 | _BYTES) + _varint(size)


def _varint(number: int) -> bytes:
    groups = [number & 0x7F]
    while number := number >> 7:
        groups[-1] |= 0x80
        groups.append(number & 0x7F)
    return bytes(groups)


def read_outline(path: Path) -> onnx.ModelProto:
    """What a file that was written here says, its large weights left where they are: as external
    data of the file itself, each at its bytes in it.

    Raises:
        OSError: It can't be read.
    """
    with path.open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        return onnx.ModelProto.FromString(_outline(file, end, _INTO, path.name))


_INTO = (_GRAPH, _INITIALIZER, _RAW_DATA)
"""The fields that lead to weights."""


def is_read_so(path: Path, outline: onnx.ModelProto) -> bool:
    """Whether protobuf's own parser reads a file as its outline says: an initializer at a time, so
    that no more than one is held.

    Raises:
        OSError: It can't be read.
        DecodeError: It can't be parsed.
    """
    told = onnx.ModelProto()
    told.CopyFrom(outline)
    mine = iter(list(told.graph.initializer))
    rest = bytearray()  # all but the initializers
    with path.open("rb") as file:
        for number, start, inside, stop in _fields(file, os.fstat(file.fileno()).st_size):
            if number != _GRAPH:
                rest += _read(file, start, stop)
                continue
            graph = bytearray()
            file.seek(inside)
            for part, first, content, last in _fields(file, stop):
                if part != _INITIALIZER:
                    graph += _read(file, first, last)
                elif not _is_initializer(next(mine, None), _read(file, content, last), content):
                    return False
            rest += _head(_GRAPH, len(graph)) + graph
    if next(mine, None) is not None:
        return False
    del told.graph.initializer[:]
    return bool(told == onnx.ModelProto.FromString(bytes(rest)))


def _is_initializer(mine: onnx.TensorProto | None, message: bytes, start: int) -> bool:
    """Whether this is what a message says that starts there in the file."""
    if mine is None:
        return False
    theirs = onnx.TensorProto.FromString(message)
    if mine.external_data:
        place = {item.key: int(item.value) for item in mine.external_data if item.key != "location"}
        first = place["offset"] - start
        if memoryview(message)[first : first + place["length"]] == theirs.raw_data:
            theirs.ClearField("raw_data")
        mine.ClearField("external_data")
        mine.ClearField("data_location")
    return bool(mine == theirs)


def _read(file: BinaryIO, start: int, stop: int) -> bytes:
    """The bytes between; the file is at their end afterwards."""
    file.seek(start)
    return file.read(stop - start)


def _fields(file: BinaryIO, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the message from here to ``end``: number, where it starts, where its content
    does, where it ends.

    Raises:
        DecodeError: It holds what no message with submessages alone does.
    """
    while (start := file.tell()) < end:
        tag, size = varint(file), varint(file)  # a number's value, or a length
        inside = file.tell()
        stop = inside + (size or 0) * (tag is not None and tag & 7 == _BYTES)
        if tag is None or size is None or tag & 7 not in {_NUMBER, _BYTES} or stop > end:
            raise DecodeError(f"the field at byte {start} is cut off or of another wire type")
        yield tag >> 3, start, inside, stop
        file.seek(stop)


def _outline(file: BinaryIO, end: int, into: Sequence[int], name: str) -> bytes:
    """The bytes of the message from here to ``end``; what is large in its fields of the first of
    these numbers is written anew, likewise, and weights, which are the last, as references."""
    made, taken = bytearray(), file.tell()
    for number, start, inside, stop in _fields(file, end):
        if number == into[0] and stop - inside >= _STREAMED_FROM:
            made += _read(file, taken, start)
            file.seek(inside)
            if len(into) > 1:
                part = _outline(file, stop, into[1:], name)
                made += _head(into[0], len(part)) + part
            else:
                made += _reference(name, inside, stop - inside)
            taken = stop
    return bytes(made + _read(file, taken, end))


def _reference(name: str, offset: int, length: int) -> bytes:
    """The fields of a weight that say where its bytes are."""
    made = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": name, "offset": offset, "length": length}.items():
        made.external_data.add(key=key, value=str(value))
    return bytes(made.SerializeToString())


def _split(message: Message, number: int) -> tuple[bytes, bytes]:
    """A message's bytes before and after the field of that number."""
    halves = []
    for left_out in (number.__le__, number.__ge__):
        half = type(message)()
        half.CopyFrom(message)
        for field in message.DESCRIPTOR.fields:
            if left_out(field.number):
                half.ClearField(field.name)
        halves.append(half.SerializeToString(deterministic=True))
    return halves[0], halves[1]
