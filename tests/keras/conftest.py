"""Keras files of many kinds, made once in a process that has Keras, and one worker to open them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from converter.errors import ModelError
from converter.runtime.worker import Worker
from parsers.keras.parser import KERAS
from tests.frameworks import framework

ROOT = Path(__file__).resolve().parents[2]
MARKER = "marker"
"""The file beside the models that code in them would write."""


def run_module(name: str, *args: str) -> str:
    """What a module of the tests prints, run in a process of its own with Keras on TensorFlow."""
    env = {**os.environ, "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [sys.executable, "-m", name, *args], cwd=ROOT, env={**env, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


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
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What make_models writes; see there."""
    folder = tmp_path_factory.mktemp("keras-models")
    run_module("tests.keras.make_models", str(folder), str(folder / MARKER))
    (folder / MARKER).unlink(missing_ok=True)
    return folder


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """The TensorFlow process."""
    with framework(KERAS, source="a Keras file", exporter="tf2onnx") as made:
        yield made
