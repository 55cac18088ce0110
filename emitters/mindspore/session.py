"""A model in MindSpore Lite's runtime, in a process of the Python that has it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.errors import ModelError
from converter.files.arrays import load_arrays, save_arrays
from converter.ir.model import TensorSpec
from converter.options.request import Request
from converter.runtime.session import Timing
from emitters.mindspore.python import USAGE, Lite, python_of

if TYPE_CHECKING:
    from converter.runtime.session import Arrays


class MindsporeSession:
    """A file, loaded for the CPU.

    Args:
        path: The model.
        request: Its ``mindspore_python`` and ``threads``.
        inputs: The model's; the file keeps their order, types and shapes.
        outputs: The model's, likewise.

    Raises:
        ModelError: The library refuses the file, or what it holds isn't what was written.
        DependencyError: The Python isn't there.
    """

    def __init__(
        self,
        path: Path,
        request: Request,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="modelyard-")
        self._lite = Lite(python_of(request), USAGE, f"the process that runs {path.name}")
        self._threads = request.threads or 0
        try:
            told = self._lite.call("load", path=str(path.absolute()), threads=self._threads)
        except BaseException:  # Ctrl-C too must not leave its process and folder
            self.close()
            raise
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._version = str(told["version"])
        ours, theirs = [list(spec.shape or ()) for spec in inputs], [i[2] for i in told["inputs"]]
        if ours != theirs:
            self.close()
            raise ModelError(
                f"MindSpore Lite loads inputs of {theirs}, but the file was written with {ours}",
                code="runtime-failed",
            )

    @property
    def runtime(self) -> dict[str, Any]:
        """Name, version, device and threads."""
        known = {"name": "mindspore-lite", "version": self._version, "device": "cpu"}
        return {**known, "threads": self._threads or None}

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """Outputs by name, in the model's order.

        Raises:
            ModelError: The library failed on these inputs.
        """
        self._asked(feeds, 1)
        found = load_arrays(self._out)
        return {
            spec.name: found[str(index)].astype(spec.dtype, copy=False)
            for index, spec in enumerate(self.outputs)
        }

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """Wall time of each run, in the process itself; one after the other."""
        taken = self._asked(feeds, runs * concurrency)
        return Timing(tuple(taken), sum(taken))

    def close(self) -> None:
        """Ends the process."""
        self._lite.close()
        self._folder.cleanup()

    @property
    def _out(self) -> Path:
        return Path(self._folder.name, "out.npz")

    def _asked(self, feeds: Arrays, runs: int) -> list[int]:
        given = Path(self._folder.name, "in.npz")
        arrays = {str(index): feeds[spec.name] for index, spec in enumerate(self.inputs)}
        save_arrays(given, arrays)
        answer = self._lite.call("run", feeds=str(given), out=str(self._out), runs=runs)
        return [int(taken) for taken in answer["ns"]]
