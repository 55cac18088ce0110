"""What a step made, to be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from converter.ir.model import Model


@dataclass(frozen=True)
class Stage:
    """What a step made.

    Attributes:
        step: What the step is called: ``simplify``; empty where nobody knows how it was made.
        model: What it made, as a graph, everything in it named; None where it can't be read as one.
    """

    step: str
    model: Model | None
