"""Holds the texts of an ONNX file to UTF-8: protobuf reads whatever bytes stand there, and every
library that meets such a name later fails in a way of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor

from converter.errors import ModelError

_TEXT, _MESSAGE = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE
_OWNERS = (onnx.NodeProto, onnx.ValueInfoProto, onnx.TensorProto)
_DROPPED = "doc_string"
"""Is no name, and is taken out unread."""
_SHOWN = 5


def check_text(proto: onnx.ModelProto, name: str) -> None:
    """Refuses a model with texts that aren't UTF-8.

    Args:
        proto: The model.
        name: The file's name, for messages.

    Raises:
        ModelError: with the first of them.
    """
    wrong = dict.fromkeys(_wrong(proto))
    if wrong:
        more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise ModelError(
            f"{name} holds names that aren't text in UTF-8",
            code="model-invalid",
            details=[*list(wrong)[:_SHOWN], *more],
            hint="If you downloaded or copied the file, do that again. Otherwise export it with "
            "other names.",
        )


def _wrong(proto: Any) -> Iterator[str]:
    """What isn't UTF-8: the field, its bytes, and what it is of."""
    waiting: list[tuple[Any, Any]] = [(proto, proto)]
    while waiting:
        message, owner = waiting.pop()
        if type(message) in _OWNERS:
            owner = message
        for field, value in message.ListFields():
            if field.type == _MESSAGE:
                items = (value,) if hasattr(value, "ListFields") else value
                waiting += [(item, owner) for item in items]
            elif field.type == _TEXT and field.name != _DROPPED:
                for text in (value,) if isinstance(value, str | bytes) else value:
                    if isinstance(text, bytes):  # which protobuf gives where it is no UTF-8
                        yield f"{field.name} {text!r}{_of(owner)}"


def _of(owner: Any) -> str:
    """Whose it is, where that has a name."""
    if isinstance(owner, onnx.NodeProto):
        return f" of the node {owner.op_type} ({owner.name or ', '.join(map(str, owner.output))})"
    return f" of the tensor {owner.name}" if type(owner) in _OWNERS else ""
