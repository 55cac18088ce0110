"""Functions of the user's that prepare files and make answers, called in a process of their own."""

from __future__ import annotations

import json
import tempfile
import weakref
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from converter.files.arrays import load_arrays, save_arrays
from converter.preparation.staged.base import Arrays, Known, MissingPackage, Seen, StageError
from converter.runtime.child import Child, ChildError, own_module, worker_env


class StepsApart:
    """Calls functions of the user's in a child, which ends when nobody has this any more.

    It stands in the place of :class:`converter.preparation.staged.steps.Steps`.
    """

    def __call__(self, known: Known, *given: Any) -> dict[str, Any]:
        """What a function makes: arrays of a file, or an answer of outputs and of what was seen.

        Raises:
            StageError: It refuses a file, or fails; with the line.
            MissingPackage: Its file imports what isn't installed.
            MachineError: The process died.
        """
        with tempfile.TemporaryDirectory(prefix="modelyard-") as folder:
            if len(given) == 1:
                return self._prepared(known, given[0], Path(folder))
            outputs, seen = given
            return self._answered(known, outputs, seen, Path(folder))

    def load(self, known: Known) -> None:
        """Looks whether a function is there.

        Raises:
            As :meth:`__call__`.
        """
        self._ask("load", known)

    def close(self) -> None:
        """Ends the child; safe to call twice."""
        if "_child" in vars(self):
            self._child.close()

    def _prepared(self, known: Known, data: Any, folder: Path) -> dict[str, Any]:
        text = isinstance(data, str)
        file, into = folder / "file", folder / "made.npz"
        file.write_bytes(data.encode() if text else data)
        self._ask("prepare", known, file=str(file), text=text, into=str(into))
        return dict(load_arrays(into))

    def _answered(self, known: Known, outputs: Arrays, seen: Seen, folder: Path) -> dict[str, Any]:
        told = {name: value for name, value in vars(seen).items() if name != "feeds"}
        files = {"outputs": folder / "outputs.npz", "feeds": folder / "feeds.npz"}
        save_arrays(files["outputs"], _plain(outputs))
        save_arrays(files["feeds"], _plain(seen.feeds))
        named = {name: str(file) for name, file in files.items()}
        said = self._ask("answer", known, seen=told, **named)
        answer: dict[str, Any] = json.loads(said["answer"])
        return answer

    def _ask(self, method: str, known: Known, **params: Any) -> dict[str, Any]:
        own = {"step": known["step"], "code": known["code"]}
        try:
            return self._child.call(method, known=own, **params)
        except ChildError as error:
            if error.kind == "dependency":
                name = str(error.fields["package"])
                raise MissingPackage(error.message, name=name) from error
            raise StageError(error.message, "", int(error.fields.get("status", 500))) from error

    @cached_property
    def _child(self) -> Child:
        argv = own_module("converter.preparation.step_child")
        child = Child(argv, what="the process of your preparation", env=worker_env())
        weakref.finalize(self, child.close)
        return child


def _plain(arrays: Mapping[str, Any]) -> Arrays:
    """Arrays as .npz files hold them: texts, and floats that NumPy itself has."""
    return {
        name: array.astype(str) if array.dtype.kind == "O"
        else array.astype(np.float32) if array.dtype.kind == "V"
        else array
        for name, array in arrays.items()
    }  # fmt: skip
