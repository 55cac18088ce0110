"""Keras' code, run by Keras in a process of its own."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.options.request import Request
from converter.runtime.frameworks import Framework
from converter.runtime.interpreter import interpreter
from converter.runtime.session import Timing
from converter.runtime.worker import Worker, WorkerSession

if TYPE_CHECKING:
    from converter.ir.model import TensorSpec
    from converter.runtime.session import Arrays

BACKEND = "KERAS_BACKEND"
"""The variable that says what Keras computes by."""

_ORDER = ("tensorflow", "torch", "jax")

_KERAS = Framework(
    *("Keras' code", "keras.child.code:KerasCodeBackend", "tensorflow"),
    needs=("keras", "h5py"),
    own=(),
    forks=True,
)


class KerasSession:
    """An archive whose classes lie beside it.

    Args:
        path: The archive.
        code: The file with its classes.
        request: What was asked for: the interpreter, the threads.
        inputs: The model's.
        outputs: The model's.
    """

    def __init__(
        self,
        path: Path,
        code: Path,
        request: Request,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> None:
        environment = _environment(request.threads)
        framework = replace(_KERAS, forks=environment[BACKEND] != "jax")  # it has threads at once
        self._folder = tempfile.TemporaryDirectory(prefix="modelyard-")
        self._worker = Worker(
            framework,
            what="the Keras process",
            source=str(path),
            interpreter=interpreter(None),
            progress=lambda text: None,
            env=environment,
        )
        try:
            told = self._worker.call(
                "load",
                file=str(path.absolute()),
                code=str(code.absolute()),
                inputs=[spec.name for spec in inputs],
                outputs=[spec.name for spec in outputs],
            )
        except BaseException:  # Ctrl-C too must not leave its process and folder
            self.close()
            raise
        runtime = {
            "name": "keras",
            "version": told["version"],
            "mode": told["backend"],
            "device": "cpu",
        }
        self._session = WorkerSession(
            *(self._worker.call, Path(self._folder.name), inputs, outputs, runtime),
            request.threads,
        )
        self.inputs, self.outputs = inputs, outputs

    @property
    def runtime(self) -> dict[str, Any]:
        """Keras, and what it computes by."""
        return self._session.runtime

    def run(self, feeds: Arrays) -> dict[str, Any]:
        """Outputs by name."""
        return self._session.run(feeds)

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """See :meth:`converter.runtime.session.Session.time`."""
        return self._session.time(feeds, runs, concurrency)

    def close(self) -> None:
        """Ends the process."""
        self._worker.close()
        self._folder.cleanup()


def _environment(threads: int | None) -> dict[str, str]:
    """What Keras computes by: as the environment says, else the first that is installed."""
    found = {BACKEND: os.environ.get(BACKEND, "") or _first()}
    if threads is not None:
        names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
        found |= dict.fromkeys(names, str(threads))
    return found


def _first() -> str:
    from importlib.util import find_spec

    return next((name for name in _ORDER if find_spec(name) is not None), "tensorflow")
