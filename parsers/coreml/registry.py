"""Which function reads which operation of a program.

@reads("relu")
def relu(reader: Reader, op: Operation) -> None:
    reader.give(op, reader.node("Relu", [reader.value(op, "x")]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from converter.families import load, registering

if TYPE_CHECKING:
    from parsers.coreml.operation import Operation
    from parsers.coreml.reader import Reader

Reading = Callable[["Reader", "Operation"], None]
"""Adds the ONNX nodes of one operation and gives its outputs; raises Refusal."""

_READINGS: dict[str, Reading] = {}


def reads(*types: str) -> Callable[[Reading], Reading]:
    """Registers a function for operations by their type."""
    return registering(_READINGS, types)


def reading_of(kind: str) -> Reading | None:
    """The function that reads operations of a type, or None."""
    load("parsers.coreml.ops")
    return _READINGS.get(kind)
