"""The other Pythons, made once for all tests here."""

from pathlib import Path
from typing import Any

import pytest

from tests.foreign.environments import bare, provide


def _python(name: str, version: str) -> Any:
    """The fixture of an environment."""
    return pytest.fixture(scope="session", name=f"{name}_python")(lambda: provide(name, version))


_torch = _python("torch", "3.11")  # torch, onnx, onnxscript and what they need
_torch_alone = _python("torch_alone", "3.13")  # neither numpy nor what exports
_tensorflow = _python("tensorflow", "3.12")  # Keras and tf2onnx too
_litert = _python("litert", "3.13")


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python 3.12 with nothing installed."""
    return bare(tmp_path_factory.mktemp("bare") / "a venv", "3.12")
