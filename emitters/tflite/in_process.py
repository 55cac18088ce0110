"""A file's main graph in LiteRT, in this process: for whoever uses a model.

What is checked or measured runs in a process of its own (:mod:`emitters.tflite.session`), which
costs milliseconds a run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import ModelError, UsageError
from converter.options.request import Request
from converter.runtime.session import Timing
from emitters.tflite.session import signature_of

if TYPE_CHECKING:
    import numpy as np

_PACKAGE = "ai-edge-litert"


class InProcessSession:
    """A file, run by its signature's names.

    Args:
        path: The file.
        request: Its threads count: one for each core by default.

    Attributes:
        inputs, outputs: As the file declares them.
        runtime: LiteRT, its version and threads.

    Raises:
        ImportError: LiteRT isn't installed.
        ModelError: It refuses the file.
    """

    def __init__(self, path: Path, request: Request) -> None:
        litert: Any = import_module("ai_edge_litert.interpreter")
        signature = signature_of(path)
        self.inputs, self.outputs = signature["inputs"], signature["outputs"]
        self._numbers = {item["name"]: item["index"] for item in signature["input_numbers"]}
        self._results = {item["name"]: item["index"] for item in signature["output_numbers"]}
        known = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
        threads = request.threads or cores
        with _failing("opening the file"):
            self._interpreter = litert.Interpreter(model_path=str(path), num_threads=threads)
        self._shapes: dict[int, tuple[int, ...]] | None = None
        found = {"name": "LiteRT", "version": version(_PACKAGE), "delegate": "xnnpack"}
        self.runtime: dict[str, Any] = {**found, "threads": threads}

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs by name, in order."""
        import numpy as np

        shapes = {index: feeds[name].shape for name, index in self._numbers.items()}
        with _failing("running the model"):
            if shapes != self._shapes:
                for index, shape in shapes.items():
                    self._interpreter.resize_tensor_input(index, list(shape), strict=False)
                self._interpreter.allocate_tensors()
                self._shapes = shapes
            for name, index in self._numbers.items():
                self._interpreter.set_tensor(index, np.asarray(feeds[name], order="C"))
            self._interpreter.invoke()
            return {name: self._output(index) for name, index in self._results.items()}

    def _output(self, index: int) -> np.ndarray[Any, Any]:
        """An output; LiteRT gives none that has no elements."""
        import numpy as np

        try:
            found: np.ndarray[Any, Any] = self._interpreter.get_tensor(index)
        except ValueError:
            for item in self._interpreter.get_output_details():
                if item["index"] == index and 0 in item["shape"]:
                    return np.zeros(tuple(item["shape"]), item["dtype"])
            raise
        return found

    def time(
        self, feeds: Mapping[str, np.ndarray[Any, Any]], runs: int, concurrency: int = 1
    ) -> Timing:
        """Wall times of one caller; raises UsageError for several, which one interpreter can't
        serve at once."""
        if concurrency != 1:
            raise UsageError("one interpreter serves one caller at a time", code="python-argument")
        taken, start = [], time.perf_counter_ns()
        for _ in range(runs):
            begun = time.perf_counter_ns()
            self.run(feeds)
            taken.append(time.perf_counter_ns() - begun)
        return Timing(tuple(taken), time.perf_counter_ns() - start)

    def close(self) -> None:
        """Gives the model's memory back."""
        self._interpreter = None


@contextmanager
def _failing(doing: str) -> Iterator[None]:
    """Says of what LiteRT raises what was being done."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"LiteRT failed while {doing}: {error}", code="runtime-failed") from error
