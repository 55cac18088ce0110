"""transpose, expand_dims and squeeze."""

from __future__ import annotations

from parsers.coreml_import.operation import Operation
from parsers.coreml_import.reader import Reader
from parsers.coreml_import.registry import reads


@reads("transpose")
def transpose(reader: Reader, op: Operation) -> None:
    """Transpose."""
    x, perm = reader.value(op, "x"), reader.setting(op, "perm")
    rank = len(perm)
    reader.give(op, reader.node("Transpose", [x], {"perm": [axis % rank for axis in perm]}))


@reads("expand_dims")
def expand_dims(reader: Reader, op: Operation) -> None:
    """Unsqueeze."""
    axes = reader.ints(reader.setting(op, "axes"))
    reader.give(op, reader.node("Unsqueeze", [reader.value(op, "x"), axes]))


@reads("squeeze")
def squeeze(reader: Reader, op: Operation) -> None:
    """Squeeze; of all axes of size 1 where none are named."""
    x, axes = reader.value(op, "x"), reader.setting(op, "axes")
    reader.give(op, reader.node("Squeeze", [x] if axes is None else [x, reader.ints(axes)]))
