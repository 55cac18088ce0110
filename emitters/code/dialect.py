"""What code looks like in a framework, beside its operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from emitters.code.steps import Unit, Weight


class Dialect(ABC):
    """A framework's way to write modules.

    Attributes:
        base: What a module's class extends.
        method: What computes it.
        tensor: The type of a tensor in a signature.
        sequence, listing, nothing: Modules one after the other; a list of modules; one that does
            nothing.
        positional: What arguments by position are called, by constructor: names of parameters
            of classes come from there.
        named: Constructors of modules whose results are called after them: ``query``.
    """

    base: str
    method: str
    tensor: str
    sequence: str
    listing: str
    nothing: str
    positional: Mapping[str, Sequence[str]]
    named: Sequence[str]

    @abstractmethod
    def tensor_line(self, attribute: str, weight: Weight) -> str:
        """What makes a tensor that belongs to a module by itself."""

    def construct(self, unit: Unit) -> str:
        """A module's constructor, called."""
        arguments = (f"{name}={text}" if name else text for name, text in unit.arguments)
        return f"{unit.kind}({', '.join(arguments)})"
