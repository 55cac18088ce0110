"""Inputs for calibration, checks and warm-up, with their labels (interface; loaders follow)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sample:
    """One set of inputs: arrays by input name with the model's full rank (a batch of 1 where it
    has a batch dimension), the label where there is one, and a name without a path."""

    name: str
    feeds: dict[str, np.ndarray[Any, Any]]
    label: Any = None


class Samples(ABC):
    """A set of samples, read one at a time: memory doesn't grow with their number.

    Attributes:
        origin: Where they came from, for the report; never a path.
        digest: sha256 over the contents and over how they were prepared.
        random: Whether they were made up (``random:N``, or none were given).
        label_names: Names of the classes, where known.
    """

    origin: str
    digest: str
    random: bool = False
    label_names: tuple[str, ...] | None = None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __iter__(self) -> Iterator[Sample]: ...

    @property
    def labelled(self) -> bool:
        """Whether every sample has a label."""
        return all(sample.label is not None for sample in self)
