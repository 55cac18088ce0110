"""What others write: neural networks that coremltools' own PyTorch front end makes, against what
PyTorch computes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parsers.coreml_import.importer import read
from parsers.coreml_import.opened import open_file
from tests.coreml.running import run
from tests.coreml.torch_layers import NAMES
from tests.coreml.torch_packages import file_name

pytestmark = pytest.mark.slow

AT_LEAST = 70
"""Kinds of layers that the networks have between them."""


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of them."""
    folder = tmp_path_factory.mktemp("networks")
    command = [sys.executable, "-m", "tests.coreml.torch_layers", str(folder)]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_it_computes_what_pytorch_does(networks: Path, name: str) -> None:
    model = read(networks / f"{file_name(name)}.mlmodel")
    arrays = np.load(networks / f"{file_name(name)}.npz")
    expected = [arrays[key] for key in arrays if key.startswith("output")]
    found = run(model, {spec.name: arrays[spec.name].astype(spec.dtype) for spec in model.inputs})
    assert len(found) == len(expected)
    for at, (y, wanted) in enumerate(zip(found, expected, strict=True)):
        assert y.size == wanted.size, f"output {at}"  # a number has one axis there, none here
        largest = max(1.0, float(np.abs(wanted.astype(np.float64)).max(initial=0)))
        difference = y.reshape(wanted.shape).astype(np.float64) - wanted.astype(np.float64)
        assert np.abs(difference).max(initial=0) <= 1e-4 * largest, f"output {at}"


def test_many_kinds_of_layers_are_among_them(networks: Path) -> None:
    kinds = {
        layer.WhichOneof("layer")
        for name in NAMES
        for layer in open_file(networks / f"{file_name(name)}.mlmodel").network.layers
    }
    assert len(kinds) >= AT_LEAST, sorted(kinds)
