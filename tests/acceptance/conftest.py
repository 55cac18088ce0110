"""The demo's output, made once for all tests that look at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cli import modelyard, small_cnn

ROOT = Path(__file__).resolve().parent.parent.parent
RECIPE = ROOT / "recipes" / "efficientnet-lite0-triton.yaml"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of the demo's recipe, made from a cold cache of steps."""
    folder = tmp_path_factory.mktemp("demo")
    out = folder / "demo"
    said = modelyard("run", RECIPE, "--out", out, "--no-cache", cwd=folder)
    assert said.code == 0, said.err
    return out


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small classifier of images, ``model.onnx``."""
    return small_cnn(tmp_path / "model.onnx")
