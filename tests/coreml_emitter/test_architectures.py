"""Whole networks, as PyTorch's exporter writes them: small, and of random weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.coreml_emitter.architectures import ARCHITECTURES
from tests.coreml_emitter.running import agree

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("architectures")
    command = [sys.executable, "-m", "tests.coreml_emitter.architectures", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return folder


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_of_two_sizes(files: Path, name: str) -> None:
    network = ARCHITECTURES[name]
    model = onnx.load(files / f"{name}.onnx")
    agree(model, [network.feeds(1), network.feeds(2)], rtol=1e-3, atol=1e-4)
