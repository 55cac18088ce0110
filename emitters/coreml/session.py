"""A package that runs: here ONNX Runtime, on the graph that is read back from it.

Core ML itself runs on Apple's systems alone. The package is opened from disk by the parser of
Core ML's format, which shares nothing with what wrote it, and what it says is computed by ONNX
Runtime: that shows whether the file holds the right program. It doesn't show what Apple's compiler
makes of it, or how the Neural Engine rounds, and it measures no latency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from converter import plugins
from converter.errors import UsageError
from converter.ir import TensorSpec
from converter.ort import OrtSession
from converter.plugins import Timing
from converter.request import Request
from emitters.coreml.interface import KEY, Port, read

if TYPE_CHECKING:
    from converter.ir import Model

    Arrays = Mapping[str, np.ndarray[Any, Any]]


def open_package(path: Path, request: Request, *, frugal: bool = False) -> ReadBackSession:
    """A session on a package.

    Raises:
        ModelError: It can't be read, or holds an operation that the parser doesn't know.
    """
    model: Model = plugins.load("parsers", "coreml").read(path)
    return ReadBackSession(path, model, request, frugal=frugal)


class ReadBackSession:
    """A package's program in ONNX Runtime.

    Attributes:
        inputs, outputs: As the model had them that the package was made of, where it says so.
    """

    def __init__(self, path: Path, model: Model, request: Request, *, frugal: bool) -> None:
        self._path = path
        self._session = OrtSession(model.graph, threads=request.threads, prepack=not frugal)
        specs = {spec.name: spec for spec in (*model.inputs, *model.outputs)}
        text = model.source.get("metadata", {}).get(KEY)
        ports = read(text, specs) if text else {}
        self._inputs = ports.get("inputs") or _as_they_are(model.inputs)
        self._outputs = ports.get("outputs") or _as_they_are(model.outputs)
        self.inputs = tuple(port.spec for port in self._inputs)
        self.outputs = tuple(port.spec for port in self._outputs)

    @property
    def runtime(self) -> dict[str, Any]:
        """ONNX Runtime, and that it stands for Core ML."""
        return {
            **self._session.runtime,
            "stands_for": self._path.name,
            "not_run": "Core ML runs on Apple's systems alone: the package was read back and its "
            "program run by ONNX Runtime; Apple's compiler and the Neural Engine's rounding "
            "aren't covered",
        }

    def run(self, feeds: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """Outputs by name, as the model has them.

        Raises:
            UsageError: An integer doesn't fit into 32 bits.
        """
        given = {port.name: _in(port, feeds[port.spec.name]) for port in self._inputs}
        found = self._session.run(given)
        return {port.spec.name: _out(port, found[port.name]) for port in self._outputs}

    def time(self, feeds: Arrays, runs: int, concurrency: int = 1) -> Timing:
        """ONNX Runtime's times: they say nothing of Core ML's."""
        given = {port.name: _in(port, feeds[port.spec.name]) for port in self._inputs}
        return self._session.time(given, runs, concurrency)

    def close(self) -> None:
        """Closes ONNX Runtime's session."""
        self._session.close()


def _as_they_are(specs: tuple[TensorSpec, ...]) -> list[Port]:
    return [Port(replace(spec), spec.name, spec.dtype) for spec in specs]


def _in(port: Port, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of the model's input as the package takes it."""
    if port.dtype == "int32" and array.dtype != np.int32:
        info = np.iinfo(np.int32)
        if array.size and (int(array.min()) < info.min or int(array.max()) > info.max):
            raise UsageError(
                f"a sample of {port.spec.name} holds integers that don't fit into 32 bits, and "
                "Core ML takes no wider ones"
            )
        array = array.astype(np.int32)
    return array.reshape(1) if port.scalar else array


def _out(port: Port, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of the package's output as the model gives it."""
    if port.scalar:
        array = array.reshape(())
    return array if array.dtype.name == port.spec.dtype else array.astype(port.spec.dtype)
