"""Keras files of many kinds, made once in a process that has Keras, and one worker to open them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from converter.errors import ModelError
from converter.interpreter import interpreter
from converter.worker import Worker

ROOT = Path(__file__).resolve().parents[2]


def run_module(name: str, *args: str) -> str:
    """What a module of the tests prints, run in a process of its own with Keras on TensorFlow."""
    env = {**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, "-m", name, *args],
        cwd=ROOT,
        env={**env, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def results_of(name: str, folder: Path) -> dict[str, Any]:
    """What such a module says of each of its cases."""
    printed = run_module(name, str(folder))
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return {item["case"]: item for item in found}


@dataclass(frozen=True)
class Files:
    """The folder of models, and the file that code in them would write."""

    folder: Path
    marker: Path

    def __getitem__(self, name: str) -> Path:
        return self.folder / name


def load(worker: Worker, path: Path, *, trust: bool = False) -> dict[str, Any]:
    return worker.call("load", file=str(path), kind="keras", trust=trust, search_paths=[])


def refused(worker: Worker, path: Path, *says: str) -> ModelError:
    """The error that loading has to end with, with these in it."""
    with pytest.raises(ModelError) as caught:
        load(worker, path)
    assert caught.value.exit_code == 3
    for text in says:
        assert text in str(caught.value)
    return caught.value


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """What make_models writes; see there."""
    folder = tmp_path_factory.mktemp("keras-models")
    marker = folder / "marker"
    run_module("tests.keras.make_models", str(folder), str(marker))
    marker.unlink(missing_ok=True)
    return Files(folder, marker)


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """The TensorFlow process."""
    worker = Worker(
        "tensorflow",
        what="the TensorFlow process",
        extra="tensorflow",
        source="a Keras file",
        interpreter=interpreter(None),
        progress=lambda text: None,
        exporter="tf2onnx",
    )
    yield worker
    worker.close()
