"""What a MindIR holds, read by the fields of ``mind_ir.proto`` that say it.

Source: ``mindspore/core/proto/mind_ir.proto`` of mindspore-ai/mindspore.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

from converter.errors import ModelError
from converter.ir.contents import Contents, Product

_Field = descriptor_pb2.FieldDescriptorProto

_FIELDS: Mapping[str, Mapping[str, tuple[int, Any, bool]]] = {
    "Model": {"graph": (7, "Graph", False)},
    "Graph": {"node": (1, "Node", True), "parameter": (3, "Tensor", True)},
    "Node": {
        "input": (1, _Field.TYPE_STRING, True),
        "name": (3, _Field.TYPE_STRING, False),
        "op_type": (4, _Field.TYPE_STRING, False),
    },
    "Tensor": {
        "dims": (1, _Field.TYPE_INT64, True),
        "data_type": (2, _Field.TYPE_INT32, False),
        "name": (7, _Field.TYPE_STRING, False),
        "raw_data": (9, _Field.TYPE_BYTES, False),
    },
}
"""Of each message: a field's number, its type or message, and whether it is a list."""

_TYPES = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 10: "float16"}


def contents_of(path: Path) -> Contents:
    """See :meth:`converter.protocols.emitter.Emitter.contents`: an operator that takes weights of
    several axes multiplies; how often isn't in the file.

    Raises:
        ModelError: It is damaged.
    """
    found = _model()()
    try:
        found.ParseFromString(path.read_bytes())
    except message.DecodeError as error:
        raise ModelError(f"{path.name} is damaged: {error}", code="model-damaged") from error
    stored: Counter[str] = Counter()
    weights = {}
    for tensor in found.graph.parameter:
        dtype = _TYPES.get(tensor.data_type, str(tensor.data_type))
        stored[dtype] += len(tensor.raw_data)
        if len(tensor.dims) > 1 and dtype.startswith("float"):
            weights[tensor.name] = dtype
    products = [
        Product(node.name, node.op_type.split(":")[2], next(item for item in taken if item), None)
        for node in found.graph.node
        if any(taken := [weights.get(name) for name in node.input])
    ]
    return Contents(path.name, products, dict(stored))


@cache
def _model() -> Any:
    """The class of a MindIR's message."""
    file = descriptor_pb2.FileDescriptorProto(name="mindir.proto", package="mindir")
    for name, fields in _FIELDS.items():
        made = file.message_type.add(name=name)
        for field, (number, kind, many) in fields.items():
            label = _Field.LABEL_REPEATED if many else _Field.LABEL_OPTIONAL
            entry = made.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                entry.type, entry.type_name = _Field.TYPE_MESSAGE, f".mindir.{kind}"
            else:
                entry.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("mindir.Model"))
