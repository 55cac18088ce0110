"""Statements before they are written: text with places in it for values and modules.

A place is a token of characters that no source text has: whoever makes a statement doesn't know yet
what its operands are called, or whether they are written into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir

Array = np.ndarray[Any, Any]
Value = onnx_ir.Value
Path = tuple[str, ...]

ATOM, UNARY, PRODUCT, SUM, SHIFT, BOTH, EITHER, COMPARED, LOWEST = 10, 8, 7, 6, 5, 4, 3, 2, 0
"""How tightly expressions hold together, as Python's grammar has it."""

UNIT = "\ue002"
"""Stands for the module that a statement calls."""

_PLACE = re.compile("\ue000(\\d+):(\\d+)\ue001")


def place(index: int, strength: int) -> str:
    """A place for a value: its index among the known ones, and how tightly what stands there has to
    hold together."""
    return f"\ue000{index}:{strength}\ue001"


def places(text: str) -> list[int]:
    """The indices of the values that a text has places for, each once."""
    return list(dict.fromkeys(int(found[1]) for found in _PLACE.finditer(text)))


def occurrences(text: str) -> list[int]:
    """The same, one as often as there are places for it."""
    return [int(found[1]) for found in _PLACE.finditer(text)]


def filled(text: str, fill: Callable[[int, int], str]) -> str:
    """A text with its places filled in; ``fill`` takes a value's index and the strength."""
    return _PLACE.sub(lambda found: fill(int(found[1]), int(found[2])), text)


@dataclass(frozen=True)
class Weight:
    """A tensor of a module's.

    Attributes:
        key: What tells it from others: equal ones are one tensor.
        shape, dtype: As it is stored.
        make: Its elements.
        trains: Whether a gradient is to reach it.
    """

    key: Hashable
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    make: Callable[[], Array] = field(compare=False, repr=False)
    trains: bool = True


@dataclass(eq=False)
class Unit:
    """A module that a statement calls, or a tensor that it takes.

    Attributes:
        kind: How it is constructed: ``nn.Conv2d``; empty for a tensor by itself.
        arguments: Of the constructor: a name and a text each; the name is empty for those by
            position.
        weights: Its tensors, by the names that its framework has for them.
        hint: What to call it where the source has no name for it.
        name: The source's; empty without.
    """

    kind: str
    arguments: tuple[tuple[str, str], ...]
    weights: dict[str, Weight]
    hint: str
    name: str = ""

    @property
    def key(self) -> Hashable:
        """What tells it from others."""
        return self.kind, self.arguments, tuple((n, w.key) for n, w in self.weights.items())


@dataclass(eq=False)
class Step:
    """A statement: an expression, and the values that it gives.

    Attributes:
        text: The expression, with places.
        outputs: The indices of what it gives, in the order of ``targets``.
        strength: How tightly the expression holds together.
        path: The modules that it lies in, from the outermost.
        targets: What stands left of the ``=`` where that isn't one value, with places.
        unit: The module that it calls.
        hint: What to call its result.
    """

    text: str
    outputs: list[int]
    strength: int = ATOM
    path: Path = ()
    targets: str = ""
    unit: Unit | None = None
    hint: str = ""

    @property
    def inputs(self) -> list[int]:
        """The indices of what it takes."""
        return places(self.text)

    @property
    def is_tensor(self) -> bool:
        """Whether it only names a tensor of the module's."""
        return self.unit is not None and not self.unit.kind

    def steps(self) -> Iterable[Step]:
        """Itself: as a group has it."""
        yield self
