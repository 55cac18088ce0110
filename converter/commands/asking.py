"""Users' files in, answers out: what a loaded artifact does with a picture or a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.preparation.declared import Classes, Declaration, Picture, Sentence
from converter.preparation.prepared import picture_array, table_of, text_arrays

Array = np.ndarray[Any, Any]

TOP = 5
"""Classes of an answer, the best first."""


@dataclass(frozen=True)
class Scored:
    """A class, and how it scored.

    Attributes:
        index: Its place on the output's last axis.
        score: Its probability, where the model is known to give such, or what makes such is known;
            else the model's own value.
        label: Its name; empty where it has none.
    """

    index: int
    score: float
    label: str = ""

    def __str__(self) -> str:
        return f"{self.label or self.index} {self.score:.4g}"


class Answer(dict[str, Array]):
    """A model's outputs by name, and what they mean.

    Attributes:
        classes: The best classes of the first output that has such, the best first; empty where
            none has.
    """

    def __init__(self, outputs: Mapping[str, Array], answer: Sequence[Classes]) -> None:
        super().__init__(outputs)
        known = (item for item in answer if item.output in outputs)
        first = next(known, None)
        self.classes = _best(outputs[first.output], first) if first else []

    @property
    def label(self) -> str:
        """The best class's name, or its number where it has none; empty where none is known."""
        return str(self.classes[0].label or self.classes[0].index) if self.classes else ""

    def __repr__(self) -> str:
        named = ", ".join(map(str, self.classes))
        return f"<{named or ', '.join(self)}>"


def _best(values: Array, known: Classes) -> list[Scored]:
    row = values.reshape(-1, values.shape[-1])[0].astype(np.float64)
    if known.activation == "softmax":
        row = np.exp(row - row.max())
        row /= row.sum()
    elif known.activation == "sigmoid":
        row = (1 + np.tanh(row / 2)) / 2
    labels = dict(enumerate(known.labels))
    best = np.argsort(-row, kind="stable")[:TOP]
    return [Scored(int(i), float(row[i]), labels.get(int(i), "")) for i in best]


def is_file(value: Any) -> bool:
    """Whether a value is a user's file or text, and no array."""
    return isinstance(value, (str, bytes, PathLike))


class Preparing:
    """What makes a model's inputs of users' files.

    Args:
        declared: How.
        folder: Where a tokenizer's file lies.
    """

    def __init__(self, declared: Declaration, folder: Path) -> None:
        self.declared, self._folder = declared, folder
        self._tables: dict[str, Array] = {}

    def rows(self, value: Any, title: str) -> dict[str, Array]:
        """The inputs of one row.

        Args:
            value: A picture's path or bytes, a text, or two as a tuple.
            title: The artifact's, for messages.

        Raises:
            UsageError: Nothing says how it is prepared, or it can't be.
            DependencyError: What prepares it isn't there.
        """
        texts = value if isinstance(value, tuple) else (value, None)
        for known in self.declared.prepare:
            if isinstance(known, Picture) and not isinstance(value, tuple):
                return {known.input: self._picture(known, value)[np.newaxis]}
            if isinstance(known, Sentence) and isinstance(texts[0], str):
                return text_arrays(known, self._folder, texts[0], texts[1])
        kinds = [item.kind for item in self.declared.prepare]
        raise UsageError(
            f"{title} takes {' or '.join(kinds) or 'arrays'}, and a {type(value).__name__} came",
        )

    def _picture(self, known: Picture, value: Any) -> Array:
        if known.input not in self._tables:
            self._tables[known.input] = table_of(known).astype(np.float32)
        if isinstance(value, bytes):
            return picture_array(known, BytesIO(value), "the picture", self._tables[known.input])
        path = Path(fspath(value))
        if not path.is_file():
            raise UsageError(f"there is no picture {path}")
        return picture_array(known, path, path.name, self._tables[known.input])
