"""What a source has recorded of a state that became inputs and outputs of the model.

A parser that makes a state explicit records it in :attr:`Model.source`; what keeps states for its
users (a server's sequences) reads it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

PAIRS = "state_pairs"
"""Its key in :attr:`Model.source`: JSON values."""


@dataclass(frozen=True)
class StatePair:
    """A state: what a run starts from, and what it leaves for the next.

    Attributes:
        input, output: The model's, by the names that they have there.
        initial: What it starts at, as stored: a number, nested lists of its shape, or None where
            nobody knows.
    """

    input: str
    output: str
    initial: Any = None


def recorded(pairs: Iterable[StatePair]) -> dict[str, Any]:
    """The entry for :attr:`Model.source`; empty where there are no states."""
    items = [asdict(pair) for pair in pairs]
    return {PAIRS: items} if items else {}


def states_of(source: Mapping[str, Any]) -> tuple[StatePair, ...]:
    """The states that a source recorded; a record of another form is none."""
    items = source.get(PAIRS, ())
    return tuple(
        StatePair(item["input"], item["output"], item.get("initial"))
        for item in (items if isinstance(items, list) else ())
    )
