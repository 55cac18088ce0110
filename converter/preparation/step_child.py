"""The process in which functions of the user's run, that prepare files and make answers.

It answers the JSON lines of :mod:`converter.runtime.child`: ``load`` finds a function, ``prepare``
calls one with a file, ``answer`` one with outputs. Arrays come and go as .npz files. What the
user's code prints goes to standard error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from converter.files.arrays import load_arrays, save_arrays
from converter.preparation.staged.base import Array, MissingPackage, Seen, StageError
from converter.preparation.staged.steps import Steps
from converter.runtime.answering import answer_requests


class Called:
    """The functions, by the methods of the process."""

    def __init__(self) -> None:
        self._steps = Steps(Path())

    def load(self, known: Mapping[str, Any]) -> dict[str, Any]:
        self._steps.load(known)
        return {}

    def prepare(self, known: Mapping[str, Any], file: str, text: bool, into: str) -> dict[str, Any]:
        """Writes the arrays that a function makes of a file, or of a text that a file holds.

        Args:
            known: The declared step: its function and options.
            file: The path of the user's file.
            text: Whether the function gets the file's text in the place of bytes.
            into: The .npz that is written, by input name.

        Returns:
            Nothing: an empty mapping.
        """
        data = Path(file).read_bytes()
        made = self._steps(known, data.decode() if text else data)
        arrays = {str(name): _array(known, name, value) for name, value in made.items()}
        save_arrays(Path(into), arrays)
        return {}

    def answer(
        self, known: Mapping[str, Any], outputs: str, feeds: str, seen: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What a function says of outputs, as JSON has it.

        Args:
            known: The declared step: its function and options.
            outputs: An .npz of the outputs by name.
            feeds: An .npz of the inputs by name.
            seen: The other fields of :class:`Seen`.

        Returns:
            ``{"answer": text}``, with the answer as JSON.

        Raises:
            StageError: The function fails, or gives what JSON lacks.
        """
        told: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in seen.items()}
        made = self._steps(
            known, load_arrays(Path(outputs)), Seen(**told, feeds=load_arrays(Path(feeds)))
        )
        try:
            return {"answer": json.dumps(made)}
        except (TypeError, ValueError) as error:
            raise StageError(
                f"{known['step']} returns a value that JSON doesn't have: {error}", "", 500
            ) from error


def _array(known: Mapping[str, Any], name: Any, value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat):
        return array.astype(np.str_)
    if array.dtype.hasobject:
        raise StageError(f"{known['step']} returns {name}, which isn't an array", "", 500)
    return array


def _answer(called: Called, request: Mapping[str, Any]) -> dict[str, Any]:
    methods: dict[str, Any] = {
        "load": called.load,
        "prepare": called.prepare,
        "answer": called.answer,
    }
    try:
        return {"result": methods[request["method"]](**request["params"])}
    except StageError as error:
        return {"error": {"kind": "usage", "message": str(error), "status": error.status}}
    except MissingPackage as error:
        return {"error": {"kind": "dependency", "message": str(error), "package": error.name}}


def main() -> None:
    """Answers requests until standard input closes."""
    called = Called()
    answer_requests(lambda request: _answer(called, request))


if __name__ == "__main__":
    main()
