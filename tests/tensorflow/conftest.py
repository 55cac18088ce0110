"""The models of these tests, and one TensorFlow process that opens them all."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from converter.ir.model import Model
from converter.options.request import Request
from converter.runtime.ort import OrtSession
from converter.runtime.worker import Worker
from parsers.tensorflow import source as tensorflow_source
from parsers.tensorflow.parser import TensorFlowParser
from parsers.tensorflow.spec import TENSORFLOW
from tests.frameworks import framework

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all models."""
    folder = tmp_path_factory.mktemp("tensorflow")
    command = [sys.executable, str(Path(__file__).with_name("make_models.py")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def process() -> Iterator[Worker]:
    """One TensorFlow process."""
    with framework(TENSORFLOW, exporter="ONNX") as worker:
        yield worker


class _Shared:
    """The shared process, which a source doesn't end."""

    def __init__(self, worker: Worker) -> None:
        self.warnings: list[str] = []
        self.call = worker.call

    def close(self) -> None:
        """Nothing."""


class Opened:
    """A source that is open in the shared process."""

    def __init__(self, source: tensorflow_source.TensorFlowSource, folder: Path,
                 made: Path) -> None:  # fmt: skip
        self.source, self._folder, self._made = source, folder, made
        self.model: Model = source.parse()
        self.inputs = [f"{spec.name}: {spec.describe()}" for spec in self.model.inputs]
        self.outputs = [spec.name for spec in self.model.outputs]

    def run(self, feeds: Arrays) -> Arrays:
        """The exported file's outputs in ONNX Runtime; TensorFlow's have to be the same."""
        outputs = OrtSession(self._folder / "exported.onnx").run(feeds)
        close(outputs, self.source.reference().run(feeds))
        return outputs

    def recorded(self, name: str) -> tuple[Arrays, Arrays]:
        """Inputs, and what TensorFlow gave for them when the model was made."""
        with np.load(self._made / f"{name}.npz") as arrays:
            sides: dict[str, Arrays] = {"in": {}, "out": {}}
            for key in arrays.files:
                side, _, tensor = key.partition("/")
                sides[side][tensor] = arrays[key]
        return sides["in"], sides["out"]

    def same(self, name: str, more: Arrays | None = None) -> None:
        """It computes what was recorded; ``more`` are further inputs."""
        feeds, expected = self.recorded(name)
        close(self.run(feeds | (more or {})), expected)


def close(outputs: Arrays, expected: Arrays) -> None:
    """The same names, and nearly the same values."""
    assert set(outputs) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-5, atol=1e-5)


Opening = Callable[..., Opened]


@pytest.fixture
def opening(process: Worker, made: Path, tmp_path: Path,
            monkeypatch: pytest.MonkeyPatch) -> Opening:  # fmt: skip
    """Opens a model in the shared process: opening(name or path, **options)."""
    monkeypatch.setattr(tensorflow_source, "Worker", lambda *args, **kwargs: _Shared(process))

    def _open(path: str | Path, **options: Any) -> Opened:
        request, parser = Request(source=str(made / path), **options), TensorFlowParser()
        assert parser.sniff(request.source)
        parser.identify(request)
        return Opened(parser.open(request, tmp_path, lambda text: None), tmp_path, made)

    return _open
