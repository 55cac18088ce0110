"""A program's operations and values, read from the protobuf's messages (``MIL.proto``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir

from converter.errors import ModelError
from parsers.coreml.blob import Blob
from parsers.coreml.decompression import unpacked

DataType = onnx_ir.DataType

STRING = "string"

_TYPES = {
    1: DataType.BOOL,
    10: DataType.FLOAT16,
    11: DataType.FLOAT,
    12: DataType.DOUBLE,
    13: DataType.BFLOAT16,
    21: DataType.INT8,
    22: DataType.INT16,
    23: DataType.INT32,
    24: DataType.INT64,
    31: DataType.UINT8,
    32: DataType.UINT16,
    33: DataType.UINT32,
    34: DataType.UINT64,
}
_BITS = {25: 4, 35: 4, 36: 2, 37: 1, 38: 6, 39: 3}
_SIGNED = {25}
_BELOW_A_BYTE = {kind: DataType.INT8 if kind in _SIGNED else DataType.UINT8 for kind in _BITS}
"""int4, and uint1 to uint6: they are unpacked to whole bytes."""

Dims = tuple[int | None, ...]


@dataclass(frozen=True)
class Type:
    """A value's type.

    Attributes:
        dtype: In ONNX; None for strings, lists and the like, which are no tensors.
        shape: None where even the number of axes isn't known, a None for each size that isn't.
        kind: ``tensor``, ``string``, ``list``, ``tuple``, ``dictionary`` or ``state``.
    """

    dtype: DataType | None
    shape: Dims | None
    kind: str = "tensor"


@dataclass(frozen=True)
class Named:
    """A name with a type: an input, or an operation's output."""

    name: str
    type: Type


@dataclass(frozen=True)
class Constant:
    """A constant.

    Attributes:
        type: Its type.
        tensor: A tensor's values, mapped where they lie in the file of weights; None for others.
        plain: Text, or a list of such constants' values.
    """

    type: Type
    tensor: onnx_ir.TensorProtocol | None = None
    plain: Any = None

    def python(self) -> Any:
        """A number, text, or a (nested) list of them."""
        return self.plain if self.tensor is None else self.tensor.numpy().tolist()


Binding = str | Constant
"""What an operation is given: the name of a value, or a constant."""


@dataclass
class Operation:
    """One operation.

    Attributes:
        type: What it computes: ``conv``.
        name: Its own.
        inputs: What it is given, by parameter; several for those that take lists.
        outputs: What it gives.
        blocks: The protobuf's blocks within it.
        attributes: Constants that belong to it: what ``const`` holds.
    """

    type: str
    name: str
    inputs: dict[str, list[Binding]]
    outputs: list[Named]
    blocks: Sequence[Any] = ()
    attributes: dict[str, Constant] = field(default_factory=dict)


class Values:
    """Reads messages; weights come from the package's files.

    Args:
        open_blob: Gives the file of weights of a name as the constants have it.
    """

    def __init__(self, open_blob: Any) -> None:
        self._open_blob = open_blob

    def operation(self, message: Any) -> Operation:
        """An operation of a block."""
        outputs = [Named(item.name, type_of(item.type)) for item in message.outputs]
        whose = outputs[0].name if outputs else message.type
        attributes = {
            name: self.constant(value, whose if name == "val" else f"{whose}'s {name}")
            for name, value in message.attributes.items()
        }
        label = attributes.get("name")
        name = str(label.plain) if label is not None else outputs[0].name if outputs else ""
        inputs = {
            key: [self._binding(item, key) for item in argument.arguments]
            for key, argument in message.inputs.items()
        }
        return Operation(message.type, name, inputs, outputs, message.blocks, attributes)

    def _binding(self, message: Any, what: str) -> Binding:
        if message.WhichOneof("binding") == "name":
            return str(message.name)
        return self.constant(message.value, what)

    def constant(self, message: Any, what: str) -> Constant:
        """A constant.

        Raises:
            ModelError: Its weights aren't there, or don't fit its type.
        """
        kind = type_of(message.type)
        if message.WhichOneof("value") == "blobFileValue":
            place = message.blobFileValue
            blob: Blob = self._open_blob(place.fileName)
            stored = blob.at(place.offset)
            return Constant(kind, stored.tensor(_known(kind, what), what))
        immediate = message.immediateValue
        which = immediate.WhichOneof("value")
        if which == "tensor":
            return _immediate(immediate.tensor, kind, what, message.type.tensorType.dataType)
        if which in ("list", "tuple"):
            parts = getattr(immediate, which).values
            return Constant(kind, plain=[self.constant(part, what).python() for part in parts])
        raise ModelError(
            f"the constant {what} has a kind that Modelyard doesn't read: {which}",
            code="model-damaged",
        )


def type_of(message: Any) -> Type:
    kind = message.WhichOneof("type")
    if kind == "stateType":
        inner = type_of(message.stateType.wrappedType)
        return Type(inner.dtype, inner.shape, "state")
    if kind == "listType":
        return _list_type(message.listType)
    if kind != "tensorType":
        return Type(None, None, str(kind).removesuffix("Type"))
    tensor = message.tensorType
    if tensor.dataType == 2:
        return Type(None, _dims(tensor), STRING)
    dtype = _TYPES.get(tensor.dataType) or _BELOW_A_BYTE.get(tensor.dataType)
    if dtype is None:
        raise ModelError(
            f"a tensor has the type number {tensor.dataType}, which isn't known",
            code="model-damaged",
        )
    return Type(dtype, _dims(tensor))


def element_bits(number: int) -> int | None:
    """Of a type below a byte, by its number in the protobuf; None for others."""
    return _BITS.get(number)


def _list_type(message: Any) -> Type:
    """A list of tensors of one shape is a tensor with an axis more, the first: how long it is isn't
    known, for the type says what it begins with. Of other lists there is nothing to say."""
    element = type_of(message.type)
    if element.kind != "tensor" or element.shape is None:
        return Type(None, None, "list")
    return Type(element.dtype, (None, *element.shape), "list")


def _dims(tensor: Any) -> Dims | None:
    if tensor.rank < 0:
        return None
    return tuple(_dim(dim) for dim in tensor.dimensions)


def _dim(message: Any) -> int | None:
    return int(message.constant.size) if message.WhichOneof("dimension") == "constant" else None


def _known(kind: Type, what: str) -> tuple[int, ...]:
    if kind.shape is None or any(dim is None for dim in kind.shape):
        raise ModelError(f"the constant {what} has no known size", code="model-damaged")
    return tuple(int(dim) for dim in kind.shape if dim is not None)


def _immediate(tensor: Any, kind: Type, what: str, number: int) -> Constant:
    """A constant among the operations; ``number`` is its type's in the protobuf."""
    which = tensor.WhichOneof("value")
    if which is None:  # a list of no elements
        assert kind.dtype is not None
        return Constant(kind, onnx_ir.Tensor(np.zeros(_known(kind, what), kind.dtype.numpy())))
    values = getattr(tensor, which).values
    if which == "strings":
        texts = [str(text) for text in values]
        return Constant(kind, plain=texts if kind.shape else texts[0])
    assert kind.dtype is not None
    shape, dtype = _known(kind, what), kind.dtype.numpy()
    if which != "bytes":
        array = np.asarray(values).astype(dtype)
    elif number in _BITS:
        count = int(np.prod(shape, dtype=np.int64))
        packed = np.frombuffer(values, np.uint8)
        array = unpacked(packed, _BITS[number], count, number in _SIGNED)
    else:
        array = np.frombuffer(values, dtype)
    if array.size != int(np.prod(shape, dtype=np.int64)):
        raise ModelError(
            f"the constant {what} has {array.size} elements, but its type has {shape}",
            code="model-damaged",
        )
    return Constant(kind, onnx_ir.Tensor(array.reshape(shape), name=what))
