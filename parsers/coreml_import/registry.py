"""Which function reads which operation of a program.

@reads("relu")
def relu(reader: Reader, op: Operation) -> None:
    reader.give(op, reader.node("Relu", [reader.value(op, "x")]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsers.coreml_import.operation import Operation
    from parsers.coreml_import.reader import Reader

Reading = Callable[["Reader", "Operation"], None]
"""Adds the ONNX nodes of one operation and gives its outputs; raises Refusal."""

_READINGS: dict[str, Reading] = {}


def reads(*types: str) -> Callable[[Reading], Reading]:
    """Registers a function for operations by their type."""

    def register(function: Reading) -> Reading:
        for name in types:
            if name in _READINGS:
                raise ValueError(f"{name} is read twice: remove one of the two functions")
            _READINGS[name] = function
        return function

    return register


def reading_of(kind: str) -> Reading | None:
    """The function that reads operations of a type, or None."""
    from parsers.coreml_import import ops

    ops.load()
    return _READINGS.get(kind)
