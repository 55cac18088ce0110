"""Users' files in, answers out: what a loaded artifact does with a picture, a sound, a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from converter.errors import UsageError
from converter.ir.model import TensorSpec
from converter.preparation.declared import Declaration
from converter.preparation.prepared import stages_of, told
from converter.preparation.staged.base import Item, Seen
from converter.preparation.stages import Stages

Array = np.ndarray[Any, Any]


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
        told: What is declared of them, as servers answer it in JSON: ``classes``, ``boxes``,
            ``text``, ``embedding``, ``numbers`` or a series by its name; empty where nothing is.
        classes: The best classes, the best first; empty where none are known, or of several rows.
    """

    def __init__(self, outputs: Mapping[str, Array], said: Mapping[str, Any]) -> None:
        super().__init__(outputs)
        self.told = dict(said)
        found = self.told.get("classes", [])
        self.classes = [Scored(**item) for item in found if isinstance(item, dict)]

    @property
    def label(self) -> str:
        """The best class's name, or its number where it has none; empty where none is known."""
        return str(self.classes[0].label or self.classes[0].index) if self.classes else ""

    @property
    def boxes(self) -> list[dict[str, Any]]:
        """What was found in a picture: ``box`` in its pixels, ``score``, ``index``, ``label``."""
        return list(self.told.get("boxes", []))

    @property
    def segments(self) -> list[dict[str, Any]]:
        """Where along a sound it was found: ``start`` and ``end`` in seconds, ``score``."""
        return list(self.told.get("segments", []))

    @property
    def text(self) -> str:
        """What was read; empty where the model reads nothing."""
        return str(self.told.get("text", ""))

    def __repr__(self) -> str:
        named = ", ".join(map(str, self.classes))
        return f"<{named or ', '.join(self.told) or ', '.join(self)}>"


def is_file(value: Any) -> bool:
    """Whether a value is a user's file or text, or two texts as a tuple, and no array."""
    two = isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, str) for v in value)
    return two or isinstance(value, (str, bytes, PathLike))


class Preparing:
    """What makes a model's inputs of users' files, and answers of its outputs.

    Args:
        declared: How.
        folder: Where a tokenizer's file lies.
        inputs: The artifact's own.
    """

    def __init__(
        self, declared: Declaration, folder: Path, inputs: Sequence[TensorSpec] = ()
    ) -> None:
        self._declared = declared
        stored = [{"name": spec.name, "dtype": spec.dtype} for spec in inputs]
        self._stages = stages_of({**declared.model_dump(), "stored": stored}, folder)

    @property
    def stages(self) -> Stages:
        """What does it."""
        return self._stages

    @property
    def takes_texts_as_they_are(self) -> bool:
        """Whether a text that is given may be an input's own value: no table is declared."""
        return "row" not in self._stages.kinds

    def rows(self, value: Any, title: str) -> tuple[dict[str, Array], Seen]:
        """The inputs of a file, and what its answer needs of it.

        Args:
            value: A path or bytes of a picture or sound, a text, or two as a tuple, the path of a
                table.
            title: The artifact's, for messages.

        Raises:
            UsageError: Nothing says how it is prepared, or it can't be.
            DependencyError: What prepares it isn't there.
        """
        with told():
            return self._stages.prepare(self.item(value, title))

    def columns(self, table: Any) -> dict[str, Array] | None:
        """Inputs of a table that has columns by name; None where nothing is declared of them."""
        for known in self._declared.prepare:
            if known.kind == "row":
                return {
                    part.name: table[list(part.columns)]
                    .to_numpy()
                    .astype(object if part.dtype == "string" else part.dtype)
                    for part in known.inputs
                }
        return None

    def answer(self, outputs: Mapping[str, Array], seen: Seen) -> Answer:
        """What the outputs of one file mean.

        Raises:
            UsageError: A function of the user's fails.
        """
        known = bool(self._declared.answer)
        with told():
            return Answer(outputs, self._stages.answer(outputs, seen) if known else {})

    def close(self) -> None:
        """Ends what functions of the user's run in; safe to call twice."""
        self._stages.steps.close()

    def item(self, value: Any, title: str) -> Item:
        """A user's file as stages take it; see :meth:`rows`."""
        kinds = self._stages.kinds
        if isinstance(value, tuple):
            if "text" in kinds and is_file(value):
                return Item("text", value[0], "the text", value[1])
        elif isinstance(value, str) and "text" in kinds:
            return Item("text", value, "the text")
        elif known := [kind for kind in kinds if kind != "text"]:
            if isinstance(value, bytes):
                data: Any = value.decode() if known[0] == "row" else value
                return Item(known[0], data, f"the {known[0]}")
            path = Path(fspath(value))
            if not path.is_file():
                raise UsageError(f"there is no {known[0]} {path}", code="file-not-found")
            row = known[0] == "row"
            return Item(known[0], path.read_text(encoding="utf-8") if row else path, path.name)
        raise UsageError(
            f"{title} takes {' or '.join(kinds) or 'arrays'}, not a {type(value).__name__}",
            code="python-argument",
        )
