"""The other Pythons, made once for all tests here."""

from pathlib import Path

import pytest

from tests.foreign.environments import bare, provide


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """A second environment of Python 3.11: torch, onnx, onnxscript and what they need."""
    return provide("torch", "3.11")


@pytest.fixture(scope="session")
def torch_alone_python() -> Path:
    """Python 3.13 with torch and what it needs: neither numpy nor what exports."""
    return provide("torch_alone", "3.13")


@pytest.fixture(scope="session")
def tensorflow_python() -> Path:
    """Python 3.12 with TensorFlow, Keras and tf2onnx."""
    return provide("tensorflow", "3.12")


@pytest.fixture(scope="session")
def litert_python() -> Path:
    """Python 3.13 with LiteRT."""
    return provide("litert", "3.13")


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python 3.12 with nothing installed."""
    return bare(tmp_path_factory.mktemp("bare") / "a venv", "3.12")
