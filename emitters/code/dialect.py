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
        root: What the model's own class is called.
        sequence: Modules one after the other; empty where they stay a list.
        nothing: A module that does nothing.
        positional: What arguments by position are called, by constructor: names of parameters
            of classes come from there.
        always_constructed: Whether classes have a constructor where nothing is made in it, too.
        named: Constructors of modules whose results are called after them: ``query``.
    """

    base: str
    method: str
    tensor: str
    root: str = "Model"
    sequence: str
    nothing: str
    positional: Mapping[str, Sequence[str]]
    named: Sequence[str]
    always_constructed: bool = False

    @abstractmethod
    def tensor_line(self, attribute: str, weight: Weight) -> str:
        """What makes a tensor that belongs to a module by itself."""

    @abstractmethod
    def listed(self, parts: Sequence[str]) -> str:
        """A list of modules, of their constructors; ``*(... for _ in range(3))`` are several."""

    def begun(self, takes: str, *, root: bool) -> list[str]:
        """How a constructor begins.

        Args:
            takes: Its parameters, each behind a comma.
            root: Whether it is the model's own.
        """
        return [f"    def __init__(self{takes}) -> None:", "        super().__init__()"]

    def size(self, x: str, axis: int) -> str:
        """How long a tensor's axis is."""
        return f"{x}.shape[{axis}]"

    def construct(self, unit: Unit) -> str:
        """A module's constructor, called."""
        arguments = (f"{name}={text}" if name else text for name, text in unit.arguments)
        return f"{unit.kind}({', '.join(arguments)})"
