"""The child process in which a user's metric runs.

It answers the JSON lines of ``converter.runtime.child``: ``load`` imports FILE and finds FUNCTION,
``score`` calls it with one sample's outputs. Only the standard library and numpy are
imported. What the user's code prints goes to standard error.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from converter.runtime.answering import answer_requests

_MODULE = "modelyard_user_metric"  # the file's own name might be a library's


class Failure(Exception):
    """What to answer instead of a result."""

    def __init__(self, message: str, lines: list[str] | None = None) -> None:
        super().__init__(message)
        self.lines = lines or []


class Metric:
    """The user's function, once it is loaded."""

    def __init__(self) -> None:
        self.function: Any = None
        self.file = ""

    def load(self, file: str, function: str) -> dict[str, Any]:
        """Imports the file and finds the function; its attributes say how to read it."""
        path = Path(file)
        self.file = path.name
        sys.path.insert(0, str(path.parent))
        sys.dont_write_bytecode = True  # the user's folder stays as it was: no __pycache__ in it
        spec = importlib.util.spec_from_file_location(_MODULE, path)
        loader = spec.loader if spec else None
        if spec is None or loader is None:
            raise Failure(f"{path.name} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_MODULE] = module
        self._guarded(f"importing {path.name}", lambda: loader.exec_module(module))
        self.function = getattr(module, function, None)
        if not callable(self.function):
            raise Failure(f"{path.name} has no function {function!r}")
        return {
            "higher_is_better": bool(getattr(self.function, "higher_is_better", True)),
            "unit": getattr(self.function, "unit", None),
        }

    def score(self, file: str, names: list[str], label: Any, label_array: bool) -> dict[str, Any]:
        """Calls the function with one sample's outputs.

        Args:
            file: An .npz with the outputs as ``o0``, ``o1``..., and with ``label`` where that is an
                array.
            names: The outputs' names, in the order of those arrays.
            label: The label, where it isn't an array.
            label_array: Whether the label is read from ``file``.

        Returns:
            ``{"value": number}``.

        Raises:
            Failure: The function raised, or its number isn't finite.
        """
        with np.load(file, allow_pickle=False) as stored:
            outputs = {name: stored[f"o{i}"] for i, name in enumerate(names)}
            if label_array:
                label = stored["label"]
        value = self._guarded("the metric", lambda: float(self.function(outputs, label)))
        if not np.isfinite(value):
            raise Failure(f"the metric returned {value}, where a finite number was expected")
        return {"value": value}

    def _guarded(self, doing: str, call: Any) -> Any:
        try:
            return call()
        except Exception as error:  # the user's code: whatever it raises is its answer
            lines = _own_lines(error, self.file)
            raise Failure(f"{doing} failed: {type(error).__name__}: {error}", lines) from error


def _own_lines(error: Exception, file: str) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [
        f"{file}, line {frame.lineno}: {frame.line}"
        for frame in frames
        if Path(frame.filename).name == file
    ]


def _answer(metric: Metric, request: Mapping[str, Any]) -> dict[str, Any]:
    methods: dict[str, Any] = {"load": metric.load, "score": metric.score}
    try:
        result = methods[request["method"]](**request["params"])
    except Failure as error:
        return {"error": {"kind": "usage", "message": str(error), "details": error.lines}}
    return {"result": result}


def main() -> None:
    """Answers requests until standard input closes."""
    metric = Metric()
    answer_requests(lambda request: _answer(metric, request))


if __name__ == "__main__":
    main()
