"""Answers users' files by several models, in this process: what ``flow.json`` says.

A request is as in ``files.py``, which is what one model's package has under this file's name; each
of the models lies in ``parts/``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from files import REFUSED, Asked, refusal, status_of
from files import Asking as OfFiles
from flows import Flow, Part
from inference import RUNTIMES, Arrays, Model
from stages import Item, Seen

__all__ = ["REFUSED", "Asked", "Asking", "refusal", "status_of"]

FILE, ANSWER = "file", "answer"
"""What stands in the place of inputs and outputs."""


class Asking(OfFiles):  # type: ignore[misc]
    """What becomes of files; safe to call from several threads."""

    def of(self, items: Sequence[Item]) -> Asked:
        """Files, which are prepared where the models run."""
        return Asked([{FILE: _held(item)} for item in items], [(Seen(), [1]) for _ in items])

    def answer(self, asked: Asked, outputs: Sequence[Arrays]) -> dict[str, Any]:
        """What the flow says of them: of several files, a list as ``answers``.

        Raises:
            StageError, InputError: One of them can't be prepared.
        """
        answers = [found[ANSWER].item() for found in outputs]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers[0] if len(answers) == 1 else {"answers": answers}


class Joined:
    """The models of a flow.

    Args:
        path: ``flow.json``.
        facts: What ``model.json`` says of the flow.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        said = json.loads(path.read_text("utf-8"))
        known = {name: _part(path.parent / "parts" / name) for name in said["parts"]}
        self._flow = Flow(said["steps"], known)
        kind = known[said["steps"][0]["part"]].stages.kinds[0]
        for file in said["warmup"]:
            self.run({FILE: _held(Item(kind, (path.parent / file).read_bytes(), file))})

    def run(self, feeds: Arrays) -> Arrays:
        """The answer to a file, or why there is none."""
        try:
            told = self._flow.ask(feeds[FILE].item())
        except REFUSED as error:
            told = error
        return {ANSWER: _held(told)}


RUNTIMES[".json"] = Joined


def _part(folder: Path) -> Part:
    """A model of the flow."""
    model = Model.load(folder)
    asking = OfFiles(model, folder)
    return Part(asking.stages, partial(asking.run_rows, model), asking.joins)


def _held(value: Any) -> Any:
    """A value as an array of one."""
    array = np.empty((), object)
    array[()] = value
    return array
