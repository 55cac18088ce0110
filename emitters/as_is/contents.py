"""What a SavedModel holds, read from ``saved_model.pb`` without TensorFlow.

Numbers of fields are those of ``tensorflow/core/protobuf`` (``saved_model.proto``,
``meta_graph.proto``, ``saved_object_graph.proto``) and ``tensorflow/core/framework``
(``graph.proto``, ``function.proto``, ``node_def.proto``, ``attr_value.proto``, ``tensor.proto``,
``types.proto``).
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from converter.errors import ModelError
from converter.files.filetypes import varint
from converter.ir.contents import Contents, Product

TYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string",
    9: "int64", 10: "bool", 14: "bfloat16", 17: "uint16", 19: "float16", 22: "uint32", 23: "uint64",
}  # fmt: skip

_PRODUCTS = frozenset({
    *("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv2DBackpropInput", "Conv3D"),
    *("Conv3DBackpropInputV2", "DepthwiseConv2dNative", "Einsum", "MatMul"),
})  # fmt: skip

_META, _GRAPH, _OBJECTS = 2, 2, 7
_VARIABLE, _DTYPE, _SHAPE = 7, 1, 2

Value = bytes | int
Message = dict[int, list[Value]]


def contents_of(folder: Path) -> Contents:
    """See :meth:`converter.protocols.emitter.Emitter.contents`; how often isn't in the file.

    Raises:
        ModelError: It is damaged.
    """
    whole = _fields((folder / "saved_model.pb").read_bytes())
    stored, products = Counter[str](), list[Product]()
    for meta in _inner(whole, _META):
        for item in _inner(meta, _OBJECTS, 1, _VARIABLE):
            _count(item, stored)
        for node in _nodes(meta):
            name, op = _text(node, 1), _text(node, 2)
            told = {_text(each, 1): each for each in _inner(node, 5)}
            if op == "Const":
                for tensor in _inner(told.get("value", {}), 2, 8):
                    _count(tensor, stored)
            elif op in _PRODUCTS:
                kinds = [int(each[6][0]) for each in _inner(told.get("T", {}), 2) if 6 in each]
                products.append(Product(name, op, TYPES.get(sum(kinds), "unknown"), None))
    return Contents(folder.name, products, dict(stored))


def _nodes(meta: Message) -> Iterator[Message]:
    """Those of the graph, and of its functions."""
    for graph in _inner(meta, _GRAPH):
        yield from _inner(graph, 1)
        yield from _inner(graph, 2, 1, 3)


def _text(message: Message, number: int) -> str:
    value = message.get(number, [b""])[0]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _count(item: Message, stored: Counter[str]) -> None:
    """A tensor's or variable's bytes: its type and shape."""
    name = TYPES.get(int(item.get(_DTYPE, [0])[0]), "")
    if name and name != "string":
        sizes = [int(dim.get(1, [0])[0]) for dim in _inner(item, _SHAPE, 2)]
        width = 2 if name == "bfloat16" else np.dtype(name).itemsize
        stored[name] += math.prod(sizes) * width


def _inner(message: Message, *numbers: int) -> Iterator[Message]:
    """Messages in a message, by the numbers of the fields that lead to them."""
    for value in message.get(numbers[0], ()):
        if isinstance(value, bytes):
            found = _fields(value)
            yield from _inner(found, *numbers[1:]) if numbers[1:] else (found,)


def _fields(data: bytes) -> Message:
    """A message's fields by number; raises ModelError where it is none."""
    file, found = io.BytesIO(data), Message()
    while file.tell() < len(data):
        tag = varint(file) or 0
        length = {0: 0, 1: 8, 2: varint(file) if tag & 7 == 2 else 0, 5: 4}.get(tag & 7)
        if length is None:
            raise ModelError("saved_model.pb is damaged", code="model-damaged")
        value = varint(file) if tag & 7 == 0 else file.read(length)
        found.setdefault(tag >> 3, []).append(value or 0 if tag & 7 == 0 else value)  # type: ignore[arg-type]
    return found
