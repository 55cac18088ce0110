"""The models of these tests, and one TensorFlow process that opens them all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.interpreter import interpreter
from converter.ir import Model
from converter.ort import OrtSession
from converter.request import Request
from converter.worker import Worker
from parsers import tensorflow_source
from parsers.tensorflow import TensorFlowParser

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all models."""
    folder = tmp_path_factory.mktemp("tensorflow")
    script = Path(__file__).with_name("make_models.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def process() -> Iterator[Worker]:
    """One TensorFlow process: each load replaces the model before."""
    worker = Worker(
        "tensorflow",
        what="the TensorFlow process",
        extra="tensorflow",
        source="the model",
        interpreter=interpreter(None),
        progress=lambda text: None,
        exporter="ONNX",
    )
    yield worker
    worker.close()


class _Shared:
    """The shared process, which a source doesn't end."""

    def __init__(self, worker: Worker) -> None:
        self.warnings: list[str] = []
        self.call = worker.call

    def close(self) -> None:
        """Nothing."""


Opening = Callable[..., "Opened"]


class Opened:
    """A source that is open in the shared process."""

    def __init__(self, source: tensorflow_source.TensorFlowSource, folder: Path) -> None:
        self.source, self._folder = source, folder
        self.model: Model = source.parse()

    @property
    def inputs(self) -> list[str]:
        """The inputs, as messages show them."""
        return [f"{spec.name}: {spec.describe()}" for spec in self.model.inputs]

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [spec.name for spec in self.model.outputs]

    def run(self, feeds: Arrays) -> Arrays:
        """The exported file's outputs in ONNX Runtime; TensorFlow's have to be the same."""
        session = OrtSession(self._folder / "exported.onnx")
        outputs = session.run(feeds)
        for name, array in self.source.reference().run(feeds).items():
            np.testing.assert_allclose(outputs[name], array, rtol=1e-5, atol=1e-5)
        return outputs


@pytest.fixture
def opening(process: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opening:
    """Opens a model in the shared process: opening(path, **options)."""
    monkeypatch.setattr(tensorflow_source, "Worker", lambda *args, **kwargs: _Shared(process))

    def _open(path: Path, **options: Any) -> Opened:
        request = Request(source=str(path), **options)
        parser = TensorFlowParser()
        assert parser.sniff(request.source)
        parser.identify(request)
        return Opened(parser.open(request, tmp_path, lambda text: None), tmp_path)

    return _open


@pytest.fixture
def recorded(made: Path) -> Callable[[str], tuple[Arrays, Arrays]]:
    """What TensorFlow gave for a model when it was made: recorded(name) -> inputs, outputs."""

    def _recorded(name: str) -> tuple[Arrays, Arrays]:
        with np.load(made / f"{name}.npz") as arrays:
            sides: dict[str, Arrays] = {"in": {}, "out": {}}
            for key in arrays.files:
                side, _, tensor = key.partition("/")
                sides[side][tensor] = arrays[key]
        return sides["in"], sides["out"]

    return _recorded
