"""An ONNX file in pieces, so that no weight is copied to write it.

What comes out is, byte for byte, what protobuf writes: fields in the order of their numbers
(protobuf's "Encoding"; the numbers are those of onnx.proto). A message is written around its
weights by hand: what comes before them, each weight's own message, what comes after.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, BinaryIO

import onnx
import onnx_ir
from google.protobuf.message import Message
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
_BYTES = 2
"""The wire type of messages and byte strings: their length goes before them."""

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


def _outline(file: BinaryIO, end: int, into: Sequence[int], name: str) -> bytes:
    """The bytes of the message from here to ``end``; what is large in its fields of the first of
    these numbers is written anew, likewise, and weights, which are the last, as references."""
    made, taken = bytearray(), file.tell()

    def take(upto: int) -> None:
        file.seek(taken)
        made.extend(file.read(upto - taken))

    while (start := file.tell()) < end:
        tag, size = varint(file) or 0, varint(file) or 0  # a number's value, or a length
        inside = file.tell()
        if tag & 7 != _BYTES:
            continue
        if tag >> 3 == into[0] and size >= _STREAMED_FROM:
            take(start)
            file.seek(inside)
            if len(into) > 1:
                part = _outline(file, inside + size, into[1:], name)
                made += _head(into[0], len(part)) + part
            else:
                made += _reference(name, inside, size)
            taken = inside + size
        file.seek(inside + size)
    take(end)
    return bytes(made)


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
