"""Which function lowers which TFLite operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from converter.families import registering

if TYPE_CHECKING:
    from parsers.tflite.context import Context
    from parsers.tflite.model import Operator

Lowering = Callable[["Context"], None]
"""Adds the ONNX nodes of one operator and sets its outputs; raises Refusal for what it can't."""

_LOWERINGS: dict[tuple[str, bool], Lowering] = {}


class Refusal(Exception):  # an answer, collected with the others
    """An operator can't be expressed in ONNX; the message says why, ``remedy`` what to do."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


def lowers(*names: str, custom: bool = False) -> Callable[[Lowering], Lowering]:
    """Registers a function for operators by the schema's name, or custom ones by their own."""
    return registering(_LOWERINGS, [(name, custom) for name in names])


def lowering(operator: Operator) -> Lowering | None:
    """The function that lowers ``operator``, or None."""
    return _LOWERINGS.get((operator.name, operator.custom))


def registered() -> frozenset[str]:
    """The builtin operators that have a lowering."""
    return frozenset(name for name, custom in _LOWERINGS if not custom)
