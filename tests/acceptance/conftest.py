"""What several of these tests convert, and where the checkout is."""

from pathlib import Path

import pytest

from tests.acceptance.cli import small_cnn

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small classifier of images, ``model.onnx``."""
    return small_cnn(tmp_path / "model.onnx")
